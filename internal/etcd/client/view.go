package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// answer is what one member said when it was asked.
type answer struct {
	list    membership.View
	listErr error
	status  *clientv3.StatusResponse
	err     error // of status
}

// View asks the members at the given addresses for the member list, then every
// member on it about itself, and puts the answers together. It fails with
// errNoAnswer when no list that a quorum stands behind could be had.
//
// The order matters: a member that was removed, or that has not yet learnt of
// its own addition, panics when it is asked for its status (etcd 3.6,
// RaftCluster.IsLocalMemberLearner: "failed to find local ID in cluster
// members"). So that is only asked of members that the list has as started.
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
	return assemble(v, answers), nil
}

// ServedClusters asks every address which cluster its member serves; who does not answer is
// left out.
func (c *Clients) ServedClusters(ctx context.Context, addresses []string) map[string]uint64 {
	return clusterIDsIn(c.memberLists(ctx, addresses))
}

// clusterIDsIn are the clusters that members serve, by address.
func clusterIDsIn(answers map[string]answer) map[string]uint64 {
	ids := map[string]uint64{}
	for address, a := range answers {
		if a.listErr == nil {
			ids[address] = a.list.ClusterID
		}
	}
	return ids
}

// OwnView is a view that asks nobody but the member at one address: enough to
// read that one, in one conversation.
func (c *Clients) OwnView(ctx context.Context, address string) (membership.View, error) {
	answers := c.memberLists(ctx, []string{address})
	v, err := firstList([]string{address}, answers)
	if err != nil {
		return membership.View{}, err
	}
	c.statuses(ctx, v, answers)
	return assemble(v, answers), nil
}

// memberLists asks every address for the member list at once.
func (c *Clients) memberLists(ctx context.Context, addresses []string) map[string]answer {
	return inParallel(addresses, func(address string) (a answer) {
		a.list, a.listErr = c.MemberList(ctx, address)
		return a
	})
}

// statuses asks the started members among those that were asked before.
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

// inParallel calls f for every address at once.
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

// firstList takes the list of the first address that gave one. All lists are
// linearizable, so it does not matter which.
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

// assemble puts what the members said of themselves beside their entries. It
// is pure.
func assemble(v membership.View, answers map[string]answer) membership.View {
	var term, applied uint64
	var alarms []membership.Alarm
	for i := range v.Members {
		m := &v.Members[i]
		a, asked := answers[m.Address()]
		switch {
		case m.Address() == "":
			m.Trouble = "has never started"
			continue
		case !asked:
			m.Trouble = "was not asked"
			continue
		case a.status == nil && a.listErr != nil:
			m.Trouble = "does not answer"
			continue
		case a.status == nil:
			m.Trouble = "status: " + a.err.Error()
			continue
		case a.status.Header.MemberId != m.ID:
			m.Trouble = fmt.Sprintf("member %x answers at its address", a.status.Header.MemberId)
			continue
		}
		m.Version, m.Index, m.Applied = membership.VersionReported(a.status.Version), a.status.RaftIndex, a.status.RaftAppliedIndex
		m.DBSize, m.DBInUse, m.DBQuota = a.status.DbSize, a.status.DbSizeInUse, a.status.DbSizeQuota
		m.Healthy, m.Trouble = judge(*m, a)
		// The highest term is the newest opinion on who leads.
		if a.status.RaftTerm >= term && a.status.Leader != 0 {
			term, v.Leader = a.status.RaftTerm, a.status.Leader
		}
		// Every member knows the alarms of all: the one that has applied most
		// knows what was raised and disarmed last.
		if a.status.RaftAppliedIndex >= applied {
			applied, alarms = a.status.RaftAppliedIndex, membership.ParseAlarms(a.status.Errors)
		}
	}
	return v.WithAlarms(alarms)
}

// judge says whether a member that answered is healthy, and if not, why. An
// alarm does not count here: a member out of space votes like any other.
func judge(m membership.Member, a answer) (bool, string) {
	switch {
	case a.status.Leader == 0:
		return false, "knows no leader"
	case !m.Learner && a.listErr != nil:
		return false, "linearizable read: " + a.listErr.Error()
	}
	return true, ""
}
