package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// PreviewRestore describes what the restore of s would do, for a plan: where the data comes
// from, how old it is, and what is known of the data that it replaces. "" means that it was
// done before. It returns an error if an apply would be refused because the cluster, or a former one, serves.
// It changes nothing, starts no member to see whether it serves, and notes nothing but who has no leader.
func (c *Clusters) PreviewRestore(ctx context.Context, s Spec) (string, error) {
	planned := &Clusters{pace: c.pace, machine: c.machine, clusters: map[string]*cluster{}}
	cl := planned.of(s)
	cl.leaderless = c.named(s.Bundle.ClusterID).leaderless
	o := cl.observeCluster(ctx, s)
	in := restoreInput{
		ID: s.Restore.ID, Cluster: s.Bundle.ClusterID, Machines: o.sorted(),
		Unasked: cl.unasked(ctx, o), Abandoned: s.Abandoned, Resumed: true,
	}
	in.Serves, in.Served = cl.serves(ctx, o)
	if d, begun := begunRestore(in); begun {
		if d.Case == restoreRefuse && in.Serves != "" {
			return "", refusal(notRestored, s, nil, d.Reason, problem.Nothing, d.Next)
		}
		return "", nil
	}
	in = cl.askSurvivors(ctx, s, o, in)
	d := decideRestore(in)
	if d.Case == restoreRefuse && in.Serves != "" {
		return "", refusal(notRestored, s, &o.view, d.Reason, problem.Nothing, d.Next)
	}
	lines := []string{fmt.Sprintf("Restore %q makes a new etcd cluster with %s.", s.Restore.ID, s.Restore.Source())}
	survivors := cl.positions(ctx, s, o)
	lines = append(lines, cl.previewSource(ctx, s, o, survivors)...)
	lost := "Everything that was written after that is lost."
	if s.Restore.Member != "" {
		lost = "What member " + s.Restore.Member + " does not have is lost."
	}
	lines = append(lines, lost+" The data that the members still have is archived on their machines; API servers stop "+
		"until etcd is restored.")
	if silent := abandoned(in); len(silent) > 0 {
		lines = append(lines, abandonedText(silent, len(s.Peers)))
	}
	if len(survivors) > 0 {
		lines = append(lines, strings.TrimSpace(survivorTable(survivors)))
	}
	if best := freshest(survivors); best != "" && best != s.Restore.Member {
		lines = append(lines, fmt.Sprintf("Member %s still has data, up to its revision: to keep it, use member = %q "+
			"instead.", best, best))
	}
	if d.Case == restoreRefuse {
		lines = append(lines, "The apply will be refused unless this changes: "+d.Reason+". "+d.Next+".")
	}
	return strings.Join(lines, "\n"), nil
}

// stagedOn returns the machine on which an earlier run has made the data that the restore of s would use again.
func (cl *cluster) stagedOn(ctx context.Context, s Spec, o observation) (m machine.Observed, there bool) {
	known := cl.machines()
	s = identified(s)
	for _, m := range o.sorted() {
		if !m.Reached() || m.Staged == "" {
			continue
		}
		s.DataDir = m.DataDir
		if is, err := machine.IsStaged(ctx, cl.machine(known[m.Address].host), s.Spec); err == nil && is {
			return m, true
		}
	}
	return machine.Observed{}, false
}

// previewSource describes the snapshot, if it can be found without changing anything.
func (cl *cluster) previewSource(ctx context.Context, s Spec, o observation, survivors []survivor) []string {
	if m, there := cl.stagedOn(ctx, s, o); there {
		return []string{"An earlier apply has already made its data on " + m.Label() + ", which is used again. If the " +
			"source has another snapshot by now, set another id to use it."}
	}
	switch r := s.Restore; {
	case r.Member != "":
		return cl.previewSurvivor(ctx, s, o, survivors)
	case r.Snapshot != "":
		known := cl.machines()
		for _, m := range o.sorted() {
			if !m.Reached() {
				continue
			}
			if file, err := machine.SnapshotAt(ctx, cl.machine(known[m.Address].host), r.Snapshot); err == nil && file != nil {
				return []string{"It is on " + m.Label() + ": " + aged(file.Size, file.Saved, file.Revision) + "."}
			}
		}
		return []string{"No machine has it now."}
	case r.File != "":
		return previewFile(ctx, r.File)
	case r.Bucket != "" && r.Bucket != machine.NewestInBucket:
		saved, err := snapshot.StoredAt(r.Bucket)
		if err != nil {
			return []string{err.Error()}
		}
		return []string{fmt.Sprintf("It was saved %s (%s ago). Up to which revision it has data becomes known when the "+
			"apply has fetched it.", saved.Format(time.RFC3339), time.Since(saved).Round(time.Second))}
	case r.Bucket != "", r.Fetch != "":
		return []string{"How old the snapshot is, and up to which revision it has data, becomes known when the apply has " +
			"fetched it."}
	}
	return nil
}

// previewFile describes a snapshot on this computer.
func previewFile(ctx context.Context, path string) []string {
	file, err := snapshot.ReadLocal(ctx, path, machine.SnapshotLimit)
	if err != nil {
		return []string{"It cannot be read now: " + err.Error() + "."}
	}
	lines := []string{"It is on this computer: " + aged(file.Size, file.Saved, file.Revision) + "."}
	switch {
	case errors.Is(file.Err, snapshot.ErrTooLarge):
		lines = append(lines, "It was not verified, because that takes too long for a plan. Up to which revision it has "+
			"data becomes known in the apply.")
	case file.Err != nil:
		lines = append(lines, "The apply will be refused, because "+file.Err.Error()+".")
	}
	return lines
}

// previewSurvivor compares what a survivor has with the newest snapshot in the archives of the machines. Those in a
// bucket are not listed in a plan: that is a request for each of them.
func (cl *cluster) previewSurvivor(ctx context.Context, s Spec, o observation, survivors []survivor) []string {
	known := cl.machines()
	var at machine.Observed
	var newest *machine.ArchivedSnapshot
	for _, m := range o.sorted() {
		if !m.Reached() {
			continue
		}
		has, err := machine.NewestSnapshot(ctx, cl.machine(known[m.Address].host), m.DataDir)
		if err == nil && has != nil && (newest == nil || has.Saved.After(newest.Saved)) {
			at, newest = m, has
		}
	}
	var file *machine.SnapshotFile
	if newest != nil {
		var err error
		file, err = machine.SnapshotAt(ctx, cl.machine(known[at.Address].host), newest.Path)
		if err != nil {
			file = nil
		}
	}
	lines := []string{"No machine that answers has a snapshot in its archive to compare this with."}
	if file != nil {
		lines = []string{
			"The newest snapshot on the machines is " + newest.Path + " on " + at.Label() + ": " +
				aged(file.Size, file.Saved, file.Revision) + ".",
			surplus(s.Restore.Member, survivors, file.Revision),
		}
	}
	if s.Snapshots != nil && s.Snapshots.S3 != nil {
		lines = append(lines, "The bucket may have a newer one: kube-snapshot-store list shows them.")
	}
	return lines
}

// surplus says what a survivor has that a snapshot lacks. The revision of the snapshot is 0 if it is not known.
func surplus(member string, survivors []survivor, revision int64) string {
	i := slices.IndexFunc(survivors, func(s survivor) bool { return s.Name == member && s.Err == nil })
	switch {
	case i < 0:
		return "Member " + member + " does not answer, so what it has beyond that becomes known in the apply."
	case revision == 0:
		return fmt.Sprintf("Member %s has data up to its revision %d.", member, survivors[i].Revision)
	case survivors[i].Revision > revision:
		return fmt.Sprintf("Member %s has what the snapshot lacks: %d of its revisions, up to %d.", member,
			survivors[i].Revision-revision, survivors[i].Revision)
	case survivors[i].Revision == revision:
		return fmt.Sprintf("Member %s has nothing that the snapshot lacks.", member)
	}
	return fmt.Sprintf("The snapshot has a later revision than member %s (%d): it has more, or it is of another "+
		"cluster.", member, survivors[i].Revision)
}

// aged describes a snapshot. The revision is 0 if it is not known.
func aged(size int64, saved time.Time, revision int64) string {
	text := fmt.Sprintf("%s, saved %s (%s ago)", membership.Bytes(size), saved.UTC().Format(time.RFC3339),
		time.Since(saved).Round(time.Second))
	if revision > 0 {
		text += fmt.Sprintf(", up to revision %d", revision)
	}
	return text
}
