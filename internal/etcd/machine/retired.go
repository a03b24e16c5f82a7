package machine

import (
	"context"
	"fmt"
	"math"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// RetireForRestore stops the member on the machine f and archives its data, for the restore of s. The record stays, and
// says then that the restore was begun: without it, the machine would look like a new one, on which an empty cluster
// may be bootstrapped. The join of the member replaces it.
func RetireForRestore(ctx context.Context, m Machine, s Spec, f Observed) error {
	if _, err := m.Change(ctx, host.Change{}, s.retireAction()); err != nil {
		return fmt.Errorf("archive the data of %s: %w", s.Label(), err)
	}
	mark := host.Change{
		Dirs: []host.Dir{{Path: layout.ConfigDir, Mode: 0o755}}, Files: []host.File{encodeRecord(retiredRecord(s, f))},
	}
	if _, err := m.Change(ctx, mark, Action{}); err != nil {
		return fmt.Errorf("record on %s that a restore was begun: %w", s.Label(), err)
	}
	return nil
}

// retireAction archives the data and removes no older archive: s has the number that is kept of another member, and a
// restore may need what is in one.
func (s Spec) retireAction() Action {
	a := s.ArchiveAction(Retire, true)
	a.KeepRecord, a.Keep = true, math.MaxInt32
	return a
}

// retiredRecord returns the record of a member whose data is archived. It has no ID any more; its other files stay, so
// their generation and the configuration do too. So does the restore that was done before, which is not done again.
func retiredRecord(s Spec, f Observed) Record {
	m := Record{ClusterID: s.Bundle.ClusterID, ClusterName: s.Bundle.ClusterName, Name: s.Name, Restoring: s.RestoreID()}
	if was := f.Record; was != nil {
		m.Generation, m.SnapshotsKept, m.Configured = was.Generation, was.SnapshotsKept, was.Configured
		m.Restored = was.Restored
	}
	return m
}

// Retired returns the restore for which the member was retired and has not joined since; "" if there is none.
func (f Observed) Retired() string {
	if f.Record == nil || f.Data || f.Running() {
		return ""
	}
	return f.Record.Restoring
}

// ForgetRetired removes the record of a machine whose member was retired for a restore and does not join, and what
// restores have staged there.
func ForgetRetired(ctx context.Context, m Machine, f Observed) error {
	if _, err := m.Change(ctx, host.Change{Remove: []string{layout.RecordPath}},
		Action{Timers: dropStaged(f.DataDir)}); err != nil {
		return fmt.Errorf("remove %s on %s: %w", layout.RecordPath, f.Label(), err)
	}
	return nil
}
