package etcd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replayMinor is the minor of etcd whose members must not replay changes of members.
const replayMinor = "3.6"

// defaultSnapshotCount is that of etcd 3.6.
const defaultSnapshotCount = 10000

// entriesTimeout is how long it may take to append entries for a snapshot of the raft log, for each
// defaultSnapshotCount.
const entriesTimeout = 2 * time.Minute

// makeReplaySafe lets the member write a snapshot of its raft log before it restarts, if the log since the last one may
// have changes of members.
//
// A member of etcd 3.6 that starts applies its log again from that snapshot on. While it replays, two things make it
// write another snapshot: an entry that sets an older version of the cluster, as the log of an upgraded one has
// (applierMembership.ClusterVersionSet), or more entries than --snapshot-count. The index of that snapshot is the entry
// being replayed, but its member list is already the final one. At the next start, changes of members after that index
// are therefore refused ("Validation on configuration change failed … ID removed"), and the member goes on with the
// members of before: it counts the one that was removed as a voter, and as leader sends nothing to the one that has
// replaced it. etcd 3.7 does not validate what is applied again.
func (c *updating) makeReplaySafe(ctx context.Context, v membership.View, entry membership.Member) error {
	if membership.MinorReported(entry.Version) != replayMinor || v.HasInitialMembers() {
		return nil
	}
	newest, err := c.raftSnapshot(ctx)
	if err != nil || !newest.Reported || newest.Exists && newest.Members.Same(v) {
		return err
	}
	running := machine.CommandIn(c.f.Definition()).Flags // not those that it is about to get
	const why = "members have changed since the last one"
	if err := appendEntries(ctx, c.clients, c.s.Name, entry.Address(), snapshotCount(running), why); err != nil {
		return refusedBy(err, "etcd member not restarted", c.s, &v, "no entries could be appended to the log: "+err.Error(),
			problem.Nothing, "apply again")
	}
	done, err := poll.Until(ctx, 10*c.cl.pace.Poll, c.cl.pace.StallTimeout, func() (bool, error) {
		newest, err = c.raftSnapshot(ctx)
		return err == nil && newest.Members.Same(v), err
	})
	if err != nil || done {
		return err
	}
	return refusal("etcd member not restarted", c.s, &v,
		"its snapshot of the raft log has other members than the cluster: "+configuration(newest), problem.Nothing,
		"replace the member (terraform apply -replace=…), which gives it the members that there are")
}

// leaveOldLog lets all members write a snapshot of their raft log, once the last of them runs 3.6: so the entries that
// set the version of before are not applied again at a start, whoever restarts a member. It comes before the removal of
// the record of the version from before: if it is cut off, the next apply repeats it.
func (c *updating) leaveOldLog(ctx context.Context, from string) {
	if membership.MinorReported(c.s.Version) != replayMinor || !release.IsOlder(from, c.s.Version) {
		return
	}
	v, err := c.clients.View(ctx, c.cl.addresses(c.s))
	entry := machine.EntryOf(&v, c.s.Spec)
	if err != nil || entry == nil || slices.ContainsFunc(v.Members, func(m membership.Member) bool {
		return membership.MinorReported(m.Version) != replayMinor
	}) {
		return
	}
	leaveOldLogAt(ctx, c.clients, c.s.Name, entry.Address(), snapshotCount(c.s.ExtraArgs))
}

// removeMember removes a member through another voter. If it was the last one of a version before 3.6, nothing is
// upgraded any more, so this is where the others leave the log of that version: see leaveOldLog. Their flags are not
// known here, only those that members usually have in common.
func removeMember(ctx context.Context, clients *client.Clients, s Spec, v membership.View, id uint64) error {
	last := v.EndsUpgrade(id, replayMinor, clients.ClusterVersion(ctx, v, id))
	through := ""
	err := clients.ViaVoter(ctx, v, id, func(address string) error {
		through = address
		return clients.Remove(ctx, address, id)
	})
	if err == nil && last {
		leaveOldLogAt(ctx, clients, s.Name, through, max(snapshotCount(s.ExtraArgs), defaultSnapshotCount))
	}
	return err
}

// leaveOldLogAt appends the entries for it through the member at an address.
func leaveOldLogAt(ctx context.Context, clients *client.Clients, name, address string, count int) {
	const why = "all of it is of etcd 3.6 from now on"
	if err := appendEntries(ctx, clients, name, address, count, why); err != nil {
		problem.Progress(ctx, "etcd %s: no snapshot of the log after the upgrade: %v", name, err)
	}
}

// appendEntries appends more than count entries to the log, after which members with this snapshotCount have written a
// snapshot of it.
func appendEntries(
	ctx context.Context, clients *client.Clients, name, address string, count int, why string,
) error {
	problem.Progress(ctx, "etcd %s: appending %d entries to the log, so that members write a snapshot of it: %s", name,
		count, why)
	limit := entriesTimeout * time.Duration(1+count/defaultSnapshotCount)
	return clients.AppendEntries(ctx, address, count+count/100+1, limit)
}

// raftSnapshot returns the newest snapshot of the member's raft log.
func (c *updating) raftSnapshot(ctx context.Context) (machine.RaftSnapshot, error) {
	facts, err := c.cl.machine(c.s.Host).Observe(ctx, machine.RaftSnapshotQuery(c.s.Directory()))
	if err != nil {
		return machine.RaftSnapshot{}, fmt.Errorf("read the raft log of %s: %w", c.s.Label(), err)
	}
	return machine.ReadRaftSnapshot(facts.Output)
}

// configuration describes the members of a snapshot.
func configuration(s machine.RaftSnapshot) string {
	var words []string
	for _, id := range append(append([]uint64{}, s.Members.Voters...), s.Members.Learners...) {
		words = append(words, strconv.FormatUint(id, 16))
	}
	return strings.Join(words, ", ")
}

// snapshotCount returns the number of entries after which a member writes a snapshot.
func snapshotCount(flags map[string]string) int {
	if n, err := strconv.Atoi(flags["snapshot-count"]); err == nil && n > 0 {
		return n
	}
	return defaultSnapshotCount
}
