package etcd

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// PreviewRestore describes what the restore of s would do, for a plan: where the data comes
// from, how old it is, and what is known of the data that it replaces. "" means that it was
// done before. It returns an error if an apply would be refused because the cluster serves.
// It changes nothing, and starts no member to see whether it serves.
func (c *Clusters) PreviewRestore(ctx context.Context, s Spec) (string, error) {
	cl := c.of(s)
	o := cl.observeCluster(ctx, s)
	in := restoreInput{
		ID: s.Restore.ID, Cluster: s.Bundle.ClusterID, DataDir: s.Directory(), Machines: o.sorted(),
		Serves: cl.serves(ctx, o), Abandoned: s.Abandoned, Resumed: true,
	}
	d := decideRestore(in)
	switch {
	case d.Case == restoreDone, d.Case == restoreContinue:
		return "", nil
	case d.Case == restoreRefuse && in.Serves != "":
		return "", refusal(notRestored, s, &o.view, d.Reason, problem.Nothing, d.Next)
	}
	lines := []string{fmt.Sprintf("Restore %q makes a new etcd cluster with %s.", s.Restore.ID, s.Restore.Source())}
	lines = append(lines, cl.previewSource(ctx, s, o)...)
	lines = append(lines, "Everything that was written after that is lost. The data that the members still have is "+
		"archived on their machines; API servers stop until etcd is restored.")
	if silent := abandoned(in); len(silent) > 0 {
		lines = append(lines, "Given up, because they do not answer and are in abandon_unreachable_hosts: "+
			strings.Join(silent, ", ")+". Their members never vote again, also if these machines come back: the restored "+
			"cluster has another ID. "+layout.RecordPath+" on the restored member's machine names them.")
	}
	survivors := cl.positions(ctx, s, o)
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

// previewSource describes the snapshot, if it can be found without changing anything.
func (cl *cluster) previewSource(ctx context.Context, s Spec, o observation) []string {
	switch r := s.Restore; {
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
		file, err := os.Stat(r.File)
		if err != nil {
			return []string{"It cannot be read now: " + err.Error() + "."}
		}
		return []string{"It is on this computer: " + aged(file.Size(), file.ModTime(), 0) + "."}
	case r.Bucket != "" && r.Bucket != machine.NewestInBucket:
		saved, err := snapshot.StoredAt(r.Bucket)
		if err != nil {
			return []string{err.Error()}
		}
		return []string{fmt.Sprintf("It was saved %s (%s ago).", saved.Format(time.RFC3339),
			time.Since(saved).Round(time.Second))}
	case r.Bucket != "", r.Fetch != "":
		return []string{"How old the snapshot is becomes known when the apply has fetched it."}
	}
	return nil
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
