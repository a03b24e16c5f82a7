package etcd

import (
	"fmt"
	"maps"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// describe combines the observed state of the machine with the cluster's view; v is nil if
// no member answered.
func describe(s Spec, f observed, v *membership.View) Status {
	out := Status{
		Unit:              f.Unit.Active,
		MachineID:         f.facts.MachineID,
		ConfigDigest:      configDigest(f.facts.Files),
		CertificateExpiry: expiry(f.facts.Files),
		NewID:             rebuilt(f) || replaced(s, f, v),
		unmanaged:         unmanaged(s, v),
	}
	var entry *membership.Member
	if v != nil {
		if m, ok := v.ByPeerURL(s.PeerURL()); ok {
			entry = &m
			out.ID, out.Version, out.Learner = fmt.Sprintf("%x", m.ID), m.Version, m.Learner
			out.Healthy = m.Healthy && len(m.Alarms) == 0
			out.Leader, out.DBSize, out.Alarms = m.ID == v.Leader, m.DBSize, m.Alarms
		}
	}
	switch {
	case v != nil && entry == nil: // nothing else is reported then
		out.Drift = []string{s.Name + ": the cluster no longer lists this member, but its machine still has its files"}
	case f.reached():
		out.Drift = append(drift(s, f, entry, time.Now()), membership.AlarmDrift(s.Name, v, entry)...)
	}
	return out
}

// after returns the machine as it is once c is applied and the unit is started. It saves
// an observation of what was just written.
func (f observed) after(s Spec, c host.Change) observed {
	facts := f.facts
	facts.Files = maps.Clone(facts.Files)
	if facts.Files == nil {
		facts.Files = map[string]host.FileState{}
	}
	for _, p := range append([]string{layout.EnvPath, layout.RecordPath}, c.Remove...) {
		delete(facts.Files, p)
	}
	for _, file := range c.Files {
		facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: orRoot(file.Owner), Group: orRoot(file.Group),
			Size: int64(len(file.Content)), SHA256: digest(file.Content), Content: string(file.Content),
		}
	}
	note := ""
	for _, file := range fixedFiles(s) {
		note += systemd.StartNoteEntry(digest(file.Content), file.Path)
	}
	facts.Files[layout.StartNote] = host.FileState{Content: note}
	facts.Dirs = maps.Clone(facts.Dirs)
	if facts.Dirs == nil {
		facts.Dirs = map[string][]string{}
	}
	facts.Dirs[s.dataDir()] = []string{"member"}
	facts.Dirs[artifactDir(s.Version)] = nil
	for _, a := range artifacts(s.Version) {
		facts.Dirs[artifactDir(s.Version)] = append(facts.Dirs[artifactDir(s.Version)], a.Name)
	}
	facts.Units = map[string]host.UnitState{layout.Unit: {Load: "loaded", Active: "active", Sub: "running", Enabled: "enabled", Result: "success"}}
	if s.Snapshots != nil {
		facts.Units[snapshot.Timer] = host.UnitState{Load: "loaded", Active: "active", Sub: "waiting", Enabled: "enabled", Result: "success"}
	}
	return interpret(f.Name, f.Address, s.dataDir(), facts, nil)
}

func orRoot(owner string) string {
	if owner == "" {
		return "root"
	}
	return owner
}
