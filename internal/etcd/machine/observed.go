package machine

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// Observed is the observed state of one machine, in this package's terms.
type Observed struct {
	Name    string
	Address string
	Err     error // why it could not be observed; everything below is empty then
	Facts   host.Facts

	DataDir   string  // where it was looked for
	Data      bool    // the data directory contains a member
	Record    *Record // nil: no readable member.json
	RecordErr error   // why member.json exists but cannot be read
	Pending   bool    // bootstrap.env exists: not yet an established voter
	New       bool    // Pending, and the static bootstrap of a new cluster
	Token     string  // of that cluster
	Initial   []string
	EmptyLog  bool   // New, and the raft log has no entry: the member has acknowledged nothing
	Staged    string // where a restore has made its data, which is not in place yet; "": nowhere
	Leftovers string // something that a restore has left, complete or not; "": nothing
	// Unit is the state of what runs the member. That of a static pod is in systemd's terms.
	Unit    host.UnitState
	Pod     staticpod.State   // empty unless the query asked for it
	Guard   string            // the target of the link StartGuard; "" if there is none
	podNote map[string]string // see StartedWith
	Volume  volume.Observed   // empty unless the query asked for it
}

// DataDirInUse returns the data directory of the unit; "" if there is none that the provider can have written.
func (f Observed) DataDirInUse() string {
	at, err := InstallationIn(DefinitionIn(f.Facts.Files))
	if err != nil {
		return ""
	}
	return at.DataDir
}

// crowded returns the directories that have more entries than were read.
func (f Observed) crowded() []string { return slices.Sorted(maps.Keys(f.Facts.Crowded)) }

// Reached reports whether the machine answered over SSH.
func (f Observed) Reached() bool { return f.Err == nil }

// Running reports whether etcd runs or systemd is about to start it (again).
func (f Observed) Running() bool {
	return slices.Contains([]string{"active", "activating", "reloading", "deactivating"}, f.Unit.Active)
}

// HasMember reports whether one of the provider's members has, had, or is about to have
// data on the machine. An established member whose data directory was emptied counts:
// there was a cluster.
func (f Observed) HasMember() bool {
	return f.Data || f.Running() || (f.Record != nil && !f.Pending)
}

// Foreign describes why what is on the machine is not of this cluster, or returns "".
func (f Observed) Foreign(clusterID, dataDir string) string {
	switch {
	case f.Data && f.Record == nil:
		return fmt.Sprintf("%s on %s has etcd data, but no %s that names its cluster%s", dataDir, f.Label(),
			layout.RecordPath, f.recordErrText())
	case f.Record != nil && f.Record.ClusterID != clusterID:
		return fmt.Sprintf("%s is a member of another cluster, %q (id %s)", f.Label(), f.Record.ClusterName,
			f.Record.ClusterID)
	case f.Running() && f.Record == nil:
		return fmt.Sprintf("%s is running on %s, but there is no %s that names its cluster%s", f.unitName(), f.Label(),
			layout.RecordPath, f.recordErrText())
	}
	return ""
}

// recordErrText describes why there is no record although the file exists.
func (f Observed) recordErrText() string {
	if f.RecordErr == nil {
		return ""
	}
	return " (the existing file is invalid: " + f.RecordErr.Error() + ")"
}

// Empty reports whether nothing of a member is on the machine.
func (f Observed) Empty() bool {
	return !f.Data && !f.HasUnit() && !f.Running() && f.Record == nil
}

// Label names the machine for messages.
func (f Observed) Label() string { return membership.Label(f.Name, f.Address) }

// Interpret converts the facts of one machine.
func Interpret(name, address, dataDir string, facts host.Facts, err error) Observed {
	f := Observed{Name: name, Address: address, DataDir: dataDir, Err: err, Facts: facts}
	if err != nil {
		return f
	}
	f.Staged, f.Leftovers = staged(dataDir, facts), leftovers(dataDir, facts)
	f.Data = slices.Contains(facts.Dirs[dataDir], MemberDir)
	if file, ok := facts.Files[layout.RecordPath]; ok {
		f.Record, f.RecordErr = ReadRecord(file.Content)
	}
	f.interpretRuntime()
	f.Volume = volume.Read(facts.Output)
	if file, ok := facts.Files[layout.EnvPath]; ok {
		f.Pending = true
		env := ParseEnvironment(file.Content)
		f.New = env["ETCD_INITIAL_CLUSTER_STATE"] == "new"
		f.Token = initialToken(env["ETCD_INITIAL_CLUSTER_TOKEN"])
		f.Initial = initialNames(env["ETCD_INITIAL_CLUSTER"])
		f.EmptyLog = f.New && emptyRaftLog(facts.Output)
	}
	return f
}

// ParseEnvironment returns the variables of bootstrap.env.
func ParseEnvironment(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[key] = value
		}
	}
	return env
}

// EntryOf returns the member of s as the cluster lists it, or nil.
func EntryOf(v *membership.View, s Spec) *membership.Member {
	if v == nil {
		return nil
	}
	if m, ok := v.ByPeerURL(s.PeerURL()); ok {
		return &m
	}
	return nil
}

// Rebuilt reports whether the machine was rebuilt, or the member never established.
func Rebuilt(f Observed) bool { return !f.Data || f.Pending }

// OfEarlierCluster describes why the data on a machine is not of the cluster in the view,
// or returns "". Causes are a restored disk, or a machine that was away while the cluster
// was destroyed and bootstrapped again. Such data is never started.
func (f Observed) OfEarlierCluster(clusterID uint64) string {
	if f.Record == nil || f.Record.EtcdCluster == "" || f.Record.EtcdCluster == fmt.Sprintf("%x", clusterID) {
		return ""
	}
	return fmt.Sprintf("%s has data of etcd cluster %s, but the members serve cluster %x", f.Label(), f.Record.EtcdCluster,
		clusterID)
}

// clustersOnMachines groups the machines with data by the etcd cluster in their records.
func clustersOnMachines(machines []Observed) map[string][]Observed {
	byID := map[string][]Observed{}
	for _, m := range machines {
		if m.Reached() && m.Data && m.Record != nil && m.Record.EtcdCluster != "" {
			byID[m.Record.EtcdCluster] = append(byID[m.Record.EtcdCluster], m)
		}
	}
	return byID
}

// DifferentClusters describes the data of different etcd clusters on the machines. It
// returns "" if there is only one cluster.
func DifferentClusters(machines []Observed) string {
	byID := clustersOnMachines(machines)
	if len(byID) < 2 {
		return ""
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		parts = append(parts, fmt.Sprintf("cluster %s on %s", id, strings.Join(Labels(byID[id]), ", ")))
	}
	return "the machines have data of different etcd clusters, of which at most one is the current one: " +
		strings.Join(parts, "; ")
}

// Labels names machines with what is on them.
func Labels(machines []Observed) []string {
	var out []string
	for _, m := range machines {
		out = append(out, fmt.Sprintf("%s [%s]", m.Label(), m.state()))
	}
	return out
}

// state describes what began on a machine, for refusals.
func (f Observed) state() string {
	words := []string{"unit " + f.Unit.Active}
	if f.Unit.Active == "" {
		words = []string{"no unit"}
	}
	if f.Data {
		words = append(words, "has data")
	} else {
		words = append(words, "no data")
	}
	if f.Pending {
		words = append(words, "bootstrap not completed")
	}
	return strings.Join(words, ", ")
}

// MayHold reports whether a machine that was reached may have a member of the cluster.
// Data without a record of another cluster may belong to this one.
func (f Observed) MayHold(clusterID string) bool {
	return !f.Empty() && (f.Record == nil || f.Record.ClusterID == clusterID)
}

// Holds reports whether what is on the machine belongs to this very member.
func (f Observed) Holds(s Spec) bool {
	return !f.Empty() && f.Foreign(s.Bundle.ClusterID, s.Directory()) == "" && (f.Record == nil || f.Record.Name == s.Name)
}

// HasMemberOf reports whether the machine is the one on which the member of s ran last: it has the data and the record
// of the member, or its volume, mounted under the ID of this machine. Another machine may have its address by now.
func (f Observed) HasMemberOf(s Spec) bool {
	if i := f.Volume.Identity; s.Volume != nil && i != nil {
		return f.Volume.InPlace() && f.HoldsVolume(s) && i.MachineID == f.Facts.MachineID
	}
	return f.Data && f.RecordedAs(s)
}

// RecordedAs reports whether the record of the machine is that of the member of s.
func (f Observed) RecordedAs(s Spec) bool {
	return f.Record != nil && f.Record.Name == s.Name && f.Record.ClusterID == s.Bundle.ClusterID
}

// After returns the machine as it is once c is applied and the unit is started. It saves
// an observation of what was just written.
func (f Observed) After(s Spec, c host.Change) Observed {
	facts := f.Facts
	facts.Files = maps.Clone(facts.Files)
	if facts.Files == nil {
		facts.Files = map[string]host.FileState{}
	}
	for _, p := range append([]string{layout.EnvPath, layout.RecordPath}, c.Remove...) {
		delete(facts.Files, p)
	}
	for _, file := range c.Files {
		facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: OrRoot(file.Owner), Group: OrRoot(file.Group),
			Size: int64(len(file.Content)), SHA256: Digest(file.Content), Content: string(file.Content),
		}
	}
	for _, dir := range c.Dirs {
		if have, known := facts.Files[dir.Path]; known {
			have.Mode, have.Owner, have.Group = fs.ModeDir|dir.Mode, OrRoot(dir.Owner), OrRoot(dir.Group)
			facts.Files[dir.Path] = have
		}
	}
	facts.Dirs = maps.Clone(facts.Dirs)
	if facts.Dirs == nil {
		facts.Dirs = map[string][]string{}
	}
	facts.Dirs[s.Directory()], facts.Crowded = []string{MemberDir}, nil
	for _, root := range archiveRoots(s.Directory()) {
		delete(facts.Dirs, root)
	}
	facts.Dirs[ArtifactDir(s.Version)] = nil
	for _, dir := range s.SnapshotMember().StoreDirs() {
		delete(facts.Dirs, dir)
	}
	for _, a := range s.artifacts() {
		dir := path.Dir(a.Path())
		facts.Dirs[dir] = append(facts.Dirs[dir], a.Name)
	}
	facts.Units = map[string]host.UnitState{}
	for _, job := range s.jobs() {
		if len(job.Files) > 0 {
			facts.Units[job.Timer()] = host.UnitState{
				Load: "loaded", Active: "active", Sub: "waiting", Enabled: "enabled", Result: "success",
			}
		}
	}
	after := Interpret(f.Name, f.Address, s.Directory(), facts, nil)
	after.Volume = s.volumeAfter(f.Volume, c)
	after.started(s)
	return after
}

// OrRoot returns the owner of a file that is written for owner.
func OrRoot(owner string) string {
	if owner == "" {
		return "root"
	}
	return owner
}

// UpgradeUnfinished reports whether an upgrade of the member was interrupted.
func (f Observed) UpgradeUnfinished() bool {
	_, there := f.Facts.Files[layout.RollbackUnitPath]
	return there
}
