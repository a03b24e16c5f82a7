package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// mayGetQuorum describes why a cluster that does not answer may do so after a while; "" if it cannot, so that a restore
// need not wait for it. machines are all that are known, and lists is what the running members have in memory, by
// address. A member that has run for least has had the time to hear of others.
//
// It cannot if no list has a quorum: a voter is missing for certain only if its machine was reached and has neither
// data nor a process. All others count as if they voted, on machines that are not known too.
func mayGetQuorum(machines []machine.Observed, lists map[string]membership.View, least time.Duration) string {
	without := map[string]bool{} // peer URLs of machines that were reached and have no member
	for _, m := range machines {
		if !m.Reached() {
			return m.Label() + " was not reached"
		}
		if !m.Data && !m.Running() {
			without[membership.PeerURL(m.Address)] = true
			continue
		}
		if _, answered := lists[m.Address]; !answered || !m.Running() {
			return "the member on " + m.Label() + " does not say whom it knows"
		}
		// Since is by the machine's clock. While the unit is not active, it is the time of its previous start.
		since := m.Unit.Since
		if m.Unit.Active != "active" || since.IsZero() || time.Now().Add(m.Facts.ClockOffset).Sub(since) < least {
			return "the member on " + m.Label() + " has just started"
		}
	}
	gone := func(m membership.Member) bool {
		return slices.ContainsFunc(m.PeerURLs, func(url string) bool { return without[url] })
	}
	for _, address := range slices.Sorted(maps.Keys(lists)) {
		voters := lists[address].Voters()
		left := len(slices.DeleteFunc(slices.Clone(voters), gone))
		if len(voters) == 0 || left >= membership.Quorum(len(voters)) {
			return fmt.Sprintf("the member on %s knows %d voters, of which %d may run", address, len(voters), left)
		}
	}
	return ""
}

// ownLists returns the member lists that running members have in memory, by address, and the machines whose sshd
// forbids to ask for them.
func (cl *cluster) ownLists(
	ctx context.Context, one Spec, s observation,
) (lists map[string]membership.View, unasked []string) {
	lists = map[string]membership.View{}
	clients, err := cl.connect(one)
	if err != nil {
		return lists, nil
	}
	defer clients.Close()
	var mu sync.Mutex
	_ = eachOf(s.machines, func(address string, m machine.Observed) error { // never fails
		if !m.Reached() || !m.Running() {
			return nil
		}
		list, _, err := clients.MemberListInMemory(ctx, address)
		if err != nil {
			list, err = clients.PeerMembers(ctx, address)
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			lists[address] = list
		} else if errors.Is(err, host.ErrForwarding) {
			unasked = append(unasked, m.Label())
		}
		return nil
	})
	slices.Sort(unasked)
	return lists, unasked
}

// waitForQuorum gives running members the time after which a silent one counts as dead, unless it cannot help. It
// reports whether it has waited.
func (cl *cluster) waitForQuorum(ctx context.Context, one Spec, s observation) (bool, error) {
	reason := "data may be on volumes elsewhere"
	if one.Volume == nil {
		lists, _ := cl.ownLists(ctx, one, s)
		reason = mayGetQuorum(s.sorted(), lists, cl.pace.DeadAfter)
	}
	if reason == "" {
		problem.Progress(ctx, "etcd: too few voters have data for a quorum")
		return false, nil
	}
	problem.Progress(ctx, "etcd: no member answers with a quorum; waiting %s for one, because %s", cl.pace.DeadAfter,
		reason)
	return true, cl.waitForAnswer(ctx, one)
}

// waitForAnswer waits until a member answers with a quorum, or for the time after which a silent one counts as dead.
func (cl *cluster) waitForAnswer(ctx context.Context, one Spec) error {
	deadline := time.Now().Add(cl.pace.DeadAfter)
	for time.Now().Before(deadline) {
		if _, err := cl.view(ctx, one); err == nil || !errors.Is(err, client.ErrNoAnswer) {
			return err
		}
		if err := wait.Pause(ctx, cl.pace.Poll); err != nil {
			return err
		}
	}
	return nil
}

// awaitFormer gives members of a cluster that a restore has given up the time for an election, and observes all again.
func (cl *cluster) awaitFormer(ctx context.Context, one Spec) (observation, error) {
	problem.Progress(ctx, "etcd: members of another cluster than the restored one run; waiting %s to see whether they "+
		"serve", cl.pace.DeadAfter)
	if err := cl.waitForAnswer(ctx, one); err != nil {
		return observation{}, err
	}
	cl.leaderless.Forget()
	return cl.observeCluster(ctx, one), nil
}
