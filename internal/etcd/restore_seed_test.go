package etcd

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// TestSeed: a restore that was cut off continues on the machine with its data, also if the snapshot, which was below
// the data directory, is in an archive by then.
func TestSeed(t *testing.T) {
	cl, specs, machines := reimagedCluster(t)
	request := func(r machine.Restore) {
		for name, s := range specs {
			s.Restore = &r
			specs[name] = s
		}
	}
	wants := func(what, name, refusal string) {
		t.Helper()
		seed, err := cl.seed(t.Context(), specs)
		if seed.Name != name || (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %q, %v, want %q, %q", what, seed.Name, err, name, refusal)
		}
	}
	stage := func(name string) {
		m := machines[specs[name].Host.Address()]
		m.report = "token prod-0011\nsize 20512\nsaved 1700000000\nrevision 41\nbump 1000000000\nkeys 3\n"
		if _, err := machine.Stage(t.Context(), m, specs[name].Spec, "prod-0011", nil); err != nil {
			t.Fatal(err)
		}
	}
	request(machine.Restore{ID: "one", Snapshot: "/srv/etcd/data/snapshot.db"})
	wants("no snapshot", "", "none of the machines of this run has /srv/etcd/data/snapshot.db")
	machines["10.0.0.2"].hasFile = true
	wants("a snapshot", "cp2", "")
	stage("cp3")
	wants("staged on another machine", "cp3", "")
	machines["10.0.0.2"].hasFile = false
	wants("staged, and the snapshot is archived", "cp3", "")
	request(machine.Restore{ID: "one", Snapshot: "/root/other.db"})
	wants("another snapshot", "", "none of the machines of this run has /root/other.db")

	request(machine.Restore{ID: "two", Fetch: "true"})
	wants("fetched", "cp1", "")
	stage("cp2")
	wants("fetched before", "cp2", "")
	request(machine.Restore{ID: "two", Member: "cp1"})
	wants("a survivor", "cp1", "")
	request(machine.Restore{ID: "two", Member: "cp9"})
	wants("an absent survivor", "", "is not part of this run")
}

// TestSeedComesLater: with -parallelism=1, the member that has the source comes after others.
func TestSeedComesLater(t *testing.T) {
	const want = "apply all members together, with the default -parallelism"
	for name, r := range map[string]machine.Restore{
		"a member":   {ID: "one", Member: "cp3"},
		"a snapshot": {ID: "one", Snapshot: "/root/good.db"},
	} {
		cl, specs, _ := reimagedCluster(t)
		s := specs["cp1"]
		s.Restore = &r
		if _, err := cl.seed(t.Context(), map[string]Spec{"cp1": s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		for name, s := range specs {
			s.Restore = &machine.Restore{ID: "one", Member: "cp9"}
			specs[name] = s
		}
		if _, err := cl.seed(t.Context(), specs); err == nil || strings.Contains(err.Error(), "-parallelism") {
			t.Errorf("%s, and all have arrived: %v", name, err)
		}
	}
}
