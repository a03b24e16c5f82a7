package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var ports = []int{2379, 2380, 2381}

// observed is the observed state of one machine, in this package's terms.
type observed struct {
	Name    string
	Address string
	Err     error // why it could not be observed; everything below is empty then
	facts   host.Facts

	Data      bool    // the data directory contains a member
	Record    *record // nil: no readable member.json
	RecordErr error   // why member.json exists but cannot be read
	Pending   bool    // bootstrap.env exists: not yet an established voter
	New       bool    // Pending, and the static bootstrap of a new cluster
	Token     string  // of that cluster
	Initial   []string
	Unit      host.UnitState
}

// reached reports whether the machine answered over SSH.
func (f observed) reached() bool { return f.Err == nil }

// running reports whether etcd runs or systemd is about to start it (again).
func (f observed) running() bool {
	return slices.Contains([]string{"active", "activating", "reloading", "deactivating"}, f.Unit.Active)
}

// hasMember reports whether one of the provider's members has, had, or is about to have
// data on the machine. An established member whose data directory was emptied counts:
// there was a cluster.
func (f observed) hasMember() bool {
	return f.Data || f.running() || (f.Record != nil && !f.Pending)
}

// foreign describes why what is on the machine is not of this cluster, or returns "".
func (f observed) foreign(clusterID, dataDir string) string {
	switch {
	case f.Data && f.Record == nil:
		return fmt.Sprintf("%s on %s has etcd data, but no %s that names its cluster%s", dataDir, f.label(), layout.RecordPath, f.recordErrText())
	case f.Record != nil && f.Record.ClusterID != clusterID:
		return fmt.Sprintf("%s is a member of another cluster, %q (id %s)", f.label(), f.Record.ClusterName, f.Record.ClusterID)
	case f.running() && f.Record == nil:
		return fmt.Sprintf("%s is running on %s, but there is no %s that names its cluster%s", layout.Unit, f.label(), layout.RecordPath, f.recordErrText())
	}
	return ""
}

// recordErrText describes why there is no record although the file exists.
func (f observed) recordErrText() string {
	if f.RecordErr == nil {
		return ""
	}
	return " (the existing file is invalid: " + f.RecordErr.Error() + ")"
}

// empty reports whether nothing of a member is on the machine.
func (f observed) empty() bool {
	_, unit := f.facts.Files[layout.UnitPath]
	return !f.Data && !unit && !f.running() && f.Record == nil
}

func (f observed) label() string { return membership.Label(f.Name, f.Address) }

// interpret converts the facts of one machine.
func interpret(name, address, dataDir string, facts host.Facts, err error) observed {
	f := observed{Name: name, Address: address, Err: err, facts: facts}
	if err != nil {
		return f
	}
	f.Data = slices.Contains(facts.Dirs[dataDir], "member")
	f.Unit = facts.Units[layout.Unit]
	if file, ok := facts.Files[layout.RecordPath]; ok {
		f.Record, f.RecordErr = readRecord(file.Content)
	}
	if file, ok := facts.Files[layout.EnvPath]; ok {
		f.Pending = true
		env := parseEnvironment(file.Content)
		f.New = env["ETCD_INITIAL_CLUSTER_STATE"] == "new"
		f.Token = initialToken(env["ETCD_INITIAL_CLUSTER_TOKEN"])
		f.Initial = initialNames(env["ETCD_INITIAL_CLUSTER"])
	}
	return f
}

func parseEnvironment(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[key] = value
		}
	}
	return env
}
