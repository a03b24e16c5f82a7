package machine

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Repair is what brings an established member to its spec.
type Repair struct {
	Change  host.Change
	Restart string      // why etcd must be restarted; "" if it need not be
	Remount bool        // mount the volume again meanwhile
	Returns bool        // to the manifest that kubeadm has written
	Issues  bool        // certificates, which are valid from now by the clock of this computer
	Pairs   []host.File // these alone, if they may be written before everything else
	Link    bool        // enable the start at boot again
	Timers  host.Script // what follows for the timers of the member, and modes of files
}

// Needed reports whether anything has to change.
func (r Repair) Needed() bool {
	return r.Restart != "" || r.Link || r.Timers != "" || len(r.Change.Files)+len(r.Change.Remove) > 0
}

// Repairs compares a machine that has a record, or whose record the cluster vouches for,
// with s. The member's entry is taken from v, which may be nil.
func Repairs(s Spec, f Observed, v *membership.View, now time.Time) (Repair, error) {
	var r Repair
	entry := EntryOf(v, s)
	for _, file := range append(FixedFiles(s), s.volumeFiles()...) {
		have, ok := f.Facts.Files[file.Path]
		if !ok || have.SHA256 != Digest(file.Content) || have.Mode.Perm() != file.Mode {
			r.Change.Files = append(r.Change.Files, file)
		}
	}
	files, remove, timers := s.repairTimers(f.Facts)
	r.Change.Files, r.Change.Remove = append(r.Change.Files, files...), append(r.Change.Remove, remove...)
	r.Timers = timers
	if f.Data && f.Leftovers != "" {
		r.Timers += dropStaged(f.DataDir)
	}
	c, err := Certificates(s, f, now)
	if err != nil {
		return Repair{}, err
	}
	r.Issues, r.Pairs = len(c.Files) > 0, s.pairsAlone(f, c)
	id := f.identity(v, entry)
	if f.Volume.InPlace() && !f.Volume.ReadOnly {
		proven := entry != nil && entry.Healthy && f.Running()
		r.Change.Files = append(r.Change.Files, s.identityRepair(f, id, proven)...)
	}
	// The record is the last file: it confirms the files before it.
	if len(c.Files) > 0 || !f.recordFits(s, id) {
		r.Change.Files = append(r.Change.Files, c.Files...)
		r.Change.Files = append(r.Change.Files, f.recordFile(s, id, c.Pairs))
	}
	for _, name := range f.Facts.Dirs[layout.DropInDir] {
		r.Change.Remove = append(r.Change.Remove, path.Join(layout.DropInDir, name))
	}
	r.Restart = restartReason(s, f, entry)
	r.Remount = s.remountReason(f) != ""
	r.Returns = s.returns(f)
	r.Timers += s.guardRepair(f) + accessRepair(s, f, now) + s.ownerRepair(f)
	if s.Volume != nil && f.Volume.Grown() && !r.Remount {
		r.Timers += s.Volume.GrowScript()
	}
	if f.Pending && entry != nil && !entry.Learner && entry.Started() {
		r.Change.Remove = append(r.Change.Remove, layout.EnvPath)
	}
	if f.UpgradeUnfinished() && entry != nil && entry.Healthy && entry.Version == s.Version {
		r.Change.Remove = append(r.Change.Remove, layout.RollbackUnitPath)
	}
	r.Link = f.Unit.Enabled != "enabled"
	if r.Needed() {
		base := baseChange(s)
		r.Change.Users, r.Change.Dirs, r.Change.Links = base.Users, base.Dirs, base.Links
	}
	return r, nil
}

// pairsAlone returns the files of issued pairs, and the record with them, which continues to say what is true of the
// member that runs. Those of another generation of the CA do not come alone.
func (s Spec) pairsAlone(f Observed, c Issued) []host.File {
	if len(c.Files) == 0 || f.Record == nil || f.Record.Generation != s.Generation() {
		return nil
	}
	if f.OtherRuntime(s) != "" {
		s.Runtime = Systemd
		if f.isPod() {
			s.Runtime = StaticPod
		}
	}
	files := slices.Clone(c.Files)
	for i := range files {
		files[i].Owner, files[i].Group = s.owner(), s.owner()
	}
	record := *f.Record
	record.Pairs = c.Pairs
	return append(files, encodeRecord(record))
}

// restartReason describes why etcd must be restarted to run with s, or returns "". etcd
// reads certificate and key at each handshake, so a change of them needs no restart, and
// existing connections stay as they are. It reads the CA pool and the flags at its start,
// and the start note records what they were, so an edit that no process has read is undone
// without a restart.
func restartReason(s Spec, f Observed, entry *membership.Member) string {
	if other := f.OtherRuntime(s); other != "" {
		return other
	}
	switch {
	case f.Unit.Active != "active":
		return "it is " + cmp.Or(f.Unit.Active, "missing")
	case len(f.Facts.Dirs[layout.DropInDir]) > 0:
		return "a drop-in is removed"
	case entry != nil && entry.Version != "" && entry.Version != s.Version:
		return fmt.Sprintf("etcd %s is running", entry.Version)
	case f.UpgradeUnfinished() && (entry == nil || !entry.Healthy):
		return "its upgrade was interrupted"
	}
	if reason := s.remountReason(f); reason != "" {
		return reason
	}
	if reason := s.liveness().NotReady(f.Facts, layout.Unit); reason != "" {
		return reason
	}
	noted := f.StartedWith()
	if f.IsInherited() {
		return cmp.Or(s.inheritedRestart(f), s.podRestartReason(f))
	}
	for _, file := range FixedFiles(s) {
		if noted[file.Path] != Digest(file.Content) {
			return "it was started with a different " + file.Path
		}
	}
	if reason := s.podRestartReason(f); reason != "" {
		return reason
	}
	if f.Unit.NeedReload && f.Facts.Files[layout.UnitPath].SHA256 == noted[layout.UnitPath] {
		return "systemd has loaded a different " + layout.UnitPath
	}
	return ""
}

// recordFile returns member.json of an established member.
func (f Observed) recordFile(s Spec, id ID, pairs map[string]string) host.File {
	m := s.KeepRestored(f).record(id, pairs)
	m.Inherited = f.inheritedDigest(s)
	return encodeRecord(m)
}

// KeepRestored returns s with the restore in the record, which stays there when the
// configuration no longer mentions it, and with the machines that were silent then.
func (s Spec) KeepRestored(f Observed) Spec {
	switch {
	case f.Record == nil:
	case s.Restore == nil && f.Record.Restored != "":
		s.Restore = &Restore{ID: f.Record.Restored, Silent: f.Record.Silent}
	case s.Restore != nil && (s.RestoreID() == f.Record.Restored || s.RestoreID() == f.Record.Restoring):
		r := *s.Restore
		r.Silent = f.Record.Silent
		s.Restore = &r
	}
	return s
}
