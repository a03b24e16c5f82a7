package etcd

import (
	"cmp"
	"fmt"
	"path"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// repair is what brings an established member to its spec.
type repair struct {
	Change  host.Change
	Restart string // why etcd must be restarted; "" if it need not be
	Link    bool   // enable the start at boot again
	Timer   snapshot.TimerAction
}

func (r repair) needed() bool {
	return r.Restart != "" || r.Link || r.Timer != snapshot.TimerLeft || len(r.Change.Files)+len(r.Change.Remove) > 0
}

// repairs compares a machine with s. The member's entry is taken from v, which may be nil.
func repairs(s Spec, f observed, v *membership.View, now time.Time) (repair, error) {
	var r repair
	entry := entryOf(v, s)
	if f.Record == nil && !f.recordLost(s, v) {
		return repair{}, refusal("etcd member not changed", s, v, f.foreign(s.Bundle.ClusterID, s.dataDir()), problem.Nothing,
			"recover the member until the cluster lists it as healthy, then apply again: its record is then rewritten")
	}
	for _, file := range fixedFiles(s) {
		have, ok := f.facts.Files[file.Path]
		if !ok || have.SHA256 != digest(file.Content) || have.Mode.Perm() != file.Mode {
			r.Change.Files = append(r.Change.Files, file)
		}
	}
	snapshots, timer := s.snapshotMember().Repair(f.facts)
	r.Timer = timer
	r.Change.Files, r.Change.Remove = append(r.Change.Files, snapshots.Files...), append(r.Change.Remove, snapshots.Remove...)
	c, err := certificates(s, f, now)
	if err != nil {
		return repair{}, err
	}
	// The record is the last file: it confirms the files before it.
	if id := f.identity(v, entry); len(c.Files) > 0 || !f.recordFits(s, id) {
		r.Change.Files = append(r.Change.Files, c.Files...)
		r.Change.Files = append(r.Change.Files, recordFile(s, id, c.Pairs))
	}
	for _, name := range f.facts.Dirs[layout.DropInDir] {
		r.Change.Remove = append(r.Change.Remove, path.Join(layout.DropInDir, name))
	}
	r.Restart = restartReason(s, f, entry)
	if f.Pending && entry != nil && !entry.Learner && entry.Started() {
		r.Change.Remove = append(r.Change.Remove, layout.EnvPath)
	}
	if f.upgradeUnfinished() && entry != nil && entry.Healthy && entry.Version == s.Version {
		r.Change.Remove = append(r.Change.Remove, layout.RollbackUnitPath)
	}
	r.Link = f.Unit.Enabled != "enabled"
	if r.needed() {
		base := baseChange(s)
		r.Change.Users, r.Change.Dirs, r.Change.Links = base.Users, base.Dirs, base.Links
	}
	return r, nil
}

// restartReason describes why etcd must be restarted to run with s, or returns "". etcd
// reads certificate and key at each handshake, so a change of them needs no restart, and
// existing connections stay as they are. It reads the CA pool and the flags at its start,
// and the start note records what they were, so an edit that no process has read is undone
// without a restart.
func restartReason(s Spec, f observed, entry *membership.Member) string {
	switch {
	case f.Unit.Active != "active":
		return "it is " + cmp.Or(f.Unit.Active, "missing")
	case len(f.facts.Dirs[layout.DropInDir]) > 0:
		return "a drop-in is removed"
	case entry != nil && entry.Version != "" && entry.Version != s.Version:
		return fmt.Sprintf("etcd %s is running", entry.Version)
	case f.upgradeUnfinished() && (entry == nil || !entry.Healthy):
		return "its upgrade was interrupted"
	}
	noted := systemd.ReadStartNote(f.facts.Files[layout.StartNote].Content)
	for _, file := range fixedFiles(s) {
		if noted[file.Path] != digest(file.Content) {
			return "it was started with a different " + file.Path
		}
	}
	if f.Unit.NeedReload && f.facts.Files[layout.UnitPath].SHA256 == noted[layout.UnitPath] {
		return "systemd has loaded a different " + layout.UnitPath
	}
	return ""
}
