package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// answer is what one member returned.
type answer struct {
	list    membership.View
	listErr error
	status  *clientv3.StatusResponse
	err     error // of status
}

// View queries the members at the given addresses for the member list, then every listed
// member for its status, and combines the answers. It returns ErrNoAnswer if no member
// returns a list that is backed by a quorum.
//
// The order matters: a member that was removed, or that has not yet learned of its own
// addition, panics when its status is requested (etcd 3.6,
// RaftCluster.IsLocalMemberLearner: "failed to find local ID in cluster members"). So only
// members that the list has as started are queried for it.
func (c *Clients) View(ctx context.Context, addresses []string) (membership.View, error) {
	answers := c.memberLists(ctx, addresses)
	v, err := firstList(addresses, answers)
	if err != nil {
		return membership.View{}, err
	}
	var more []string
	for _, m := range v.Members {
		if _, asked := answers[m.Address()]; !asked && m.Started() {
			more = append(more, m.Address())
		}
	}
	maps.Copy(answers, c.memberLists(ctx, more))
	if err := membership.RequireOneCluster(clusterIDsIn(answers)); err != nil {
		return membership.View{}, err
	}
	c.statuses(ctx, v, answers)
	c.askLate(ctx, answers)
	return assemble(v, answers), nil
}

// ServedClusters queries every address for the cluster that its member serves. Members
// that do not answer are left out.
func (c *Clients) ServedClusters(ctx context.Context, addresses []string) map[string]uint64 {
	return clusterIDsIn(c.memberLists(ctx, addresses))
}

// clusterIDsIn returns the clusters that members serve, by address.
func clusterIDsIn(answers map[string]answer) map[string]uint64 {
	ids := map[string]uint64{}
	for address, a := range answers {
		if a.listErr == nil {
			ids[address] = a.list.ClusterID
		}
	}
	return ids
}

// OwnView returns a view from only the member at one address: sufficient to read that
// member, with a single connection.
func (c *Clients) OwnView(ctx context.Context, address string) (membership.View, error) {
	answers := c.memberLists(ctx, []string{address})
	v, err := firstList([]string{address}, answers)
	if err != nil {
		return membership.View{}, err
	}
	c.statuses(ctx, v, answers)
	c.askLate(ctx, answers)
	return assemble(v, answers), nil
}

// memberLists queries all addresses for the member list, in parallel.
func (c *Clients) memberLists(ctx context.Context, addresses []string) map[string]answer {
	return inParallel(addresses, func(address string) (a answer) {
		a.list, a.listErr = c.MemberList(ctx, address)
		return a
	})
}

// statuses queries the started members at the addresses in answers for their status.
func (c *Clients) statuses(ctx context.Context, v membership.View, answers map[string]answer) {
	var started []string
	for _, m := range v.Members {
		if _, asked := answers[m.Address()]; asked && m.Started() {
			started = append(started, m.Address())
		}
	}
	maps.Copy(answers, inParallel(started, func(address string) answer {
		a := answers[address]
		a.status, a.err = c.status(ctx, address)
		return a
	}))
}

// askLate asks the members once more that have not answered a linearizable read in time although they have a leader:
// one late answer of a busy machine is no lost vote. One that has no leader says so.
func (c *Clients) askLate(ctx context.Context, answers map[string]answer) {
	var late []string
	for address, a := range answers {
		if codeOf(a.listErr) == codes.DeadlineExceeded && a.status != nil && a.status.Leader != 0 {
			late = append(late, address)
		}
	}
	maps.Copy(answers, inParallel(late, func(address string) answer {
		a := answers[address]
		a.list, a.listErr = c.MemberList(ctx, address)
		return a
	}))
}

// inParallel calls f for all addresses in parallel.
func inParallel(addresses []string, f func(string) answer) map[string]answer {
	answers := make(map[string]answer, len(addresses))
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, address := range addresses {
		group.Go(func() {
			a := f(address)
			mu.Lock()
			defer mu.Unlock()
			answers[address] = a
		})
	}
	group.Wait()
	return answers
}

// firstList returns the list of the first address that returned one. All lists are
// linearizable, so any of them will do.
func firstList(addresses []string, answers map[string]answer) (membership.View, error) {
	reasons := []error{ErrNoAnswer}
	for _, address := range addresses {
		a := answers[address]
		if a.listErr == nil {
			return a.list, nil
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", address, a.listErr))
	}
	return membership.View{}, errors.Join(reasons...)
}

// assemble combines the entries of the member list with the status of each member. It is
// pure.
func assemble(v membership.View, answers map[string]answer) membership.View {
	var term, applied uint64
	var alarms []membership.Alarm
	var downgradeKnown uint64
	for i := range v.Members {
		m := &v.Members[i]
		a, asked := answers[m.Address()]
		switch {
		case m.Address() == "":
			m.Trouble = "has never started"
			continue
		case !asked:
			m.Trouble = "was not queried"
			continue
		case a.status == nil && a.listErr != nil:
			m.Trouble = "does not answer"
			continue
		case a.status == nil:
			m.Trouble = "status: " + a.err.Error()
			continue
		case a.status.Header.MemberId != m.ID:
			m.Trouble = fmt.Sprintf("its address is served by member %x", a.status.Header.MemberId)
			continue
		}
		m.Version, m.Index, m.Applied = membership.VersionReported(a.status.Version), a.status.RaftIndex,
			a.status.RaftAppliedIndex
		m.DBSize, m.DBInUse, m.DBQuota = a.status.DbSize, a.status.DbSizeInUse, a.status.DbSizeQuota
		m.Storage = membership.MinorReported(a.status.StorageVersion)
		m.Healthy, m.Trouble = judge(*m, a)
		// 3.5 does not report a downgrade.
		if info := a.status.DowngradeInfo; info != nil && a.status.RaftAppliedIndex >= downgradeKnown {
			downgradeKnown, v.Downgrade = a.status.RaftAppliedIndex, downgradeOf(info)
		}
		// The answer with the highest term has the newest leader.
		if a.status.RaftTerm >= term && a.status.Leader != 0 {
			term, v.Leader = a.status.RaftTerm, a.status.Leader
		}
		// Every member knows the alarms of all members. The one with the highest
		// applied index knows the latest changes.
		if a.status.RaftAppliedIndex >= applied {
			applied, alarms = a.status.RaftAppliedIndex, membership.ParseAlarms(a.status.Errors)
		}
	}
	return v.WithAlarms(alarms)
}

// downgradeOf returns the minor version to which a downgrade is enabled, or "".
func downgradeOf(info *pb.DowngradeInfo) string {
	if !info.Enabled {
		return ""
	}
	return membership.MinorReported(info.TargetVersion)
}

// judge reports whether a member that answered is healthy, and if not, why. Alarms do not
// count here: a member without space votes like any other.
func judge(m membership.Member, a answer) (bool, string) {
	switch {
	case a.status.Leader == 0:
		return false, "knows no leader"
	case !m.Learner && a.listErr != nil:
		return false, "linearizable read: " + a.listErr.Error()
	}
	return true, ""
}
