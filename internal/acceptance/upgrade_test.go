package acceptance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// versions are the versions that a control plane runs, or is configured to run.
type versions struct{ etcd, kubernetes string }

// defaults returns the versions of the examples.
func defaults(t *testing.T) versions {
	t.Helper()
	return versions{release(t, "etcd"), release(t, "kubernetes")}
}

// minorBefore returns versions that are older by a minor version of etcd, and by a number of minor
// versions of Kubernetes.
func minorBefore(t *testing.T, kubernetes int) versions {
	t.Helper()
	return versions{release(t, build.MinorBefore("etcd", 1)), release(t, build.MinorBefore("kubernetes", kubernetes))}
}

// upgradeStory is a control plane of three machines that goes through versions.
type upgradeStory struct {
	w     *workspace.Workspace
	names []string
	bare  map[string][]string
}

// newUpgradeStory applies the example with the initial versions.
func newUpgradeStory(t *testing.T, from versions) *upgradeStory {
	t.Helper()
	names := []string{"cp1", "cp2", "cp3"}
	s := &upgradeStory{w: newStory(t, names...), names: names}
	s.bare = fingerprints(t, names...)
	s.choose(t, from)
	apply(t, s.w)
	expectServing(t, s.w, names, from.etcd, from.kubernetes)
	return s
}

// choose sets the two versions, which is all that an upgrade needs.
func (s *upgradeStory) choose(t *testing.T, v versions) {
	t.Helper()
	if err := s.w.WriteJSON("versions.auto.tfvars.json",
		map[string]any{"etcd_version": v.etcd, "kubernetes_version": v.kubernetes}); err != nil {
		t.Fatal(err)
	}
}

// over ends the story.
func (s *upgradeStory) over(t *testing.T) {
	t.Helper()
	apply(t, s.w, "-destroy")
	expectBare(t, s.bare, s.names...)
}

// moment returns the current time of the machines' clock.
func moment(t *testing.T) float64 {
	t.Helper()
	return seconds(t, "cp1", `date +%s.%N`)
}

// TestUpgrade upgrades etcd and Kubernetes to their next minor versions in one apply, and
// Kubernetes to the one after that, with clients that use credentials from before. Members are
// upgraded one at a time, the leader last, then replicas one at a time. Everything is on the
// machines before the first one is changed.
func TestUpgrade(t *testing.T) {
	from, last := minorBefore(t, 2), defaults(t)
	s := newUpgradeStory(t, from)
	for _, to := range []versions{{last.etcd, minorBefore(t, 1).kubernetes}, last} {
		t.Run(to.kubernetes, func(t *testing.T) { s.upgrade(t, from, to) })
		if t.Failed() {
			t.FailNow()
		}
		from = to
	}
	s.over(t)
}

func (s *upgradeStory) upgrade(t *testing.T, from, to versions) {
	leader, saved := leaderOf(t, s.w), s.snapshots(t)
	l := startLoad(t, outputOf(t, s.w, "kubeconfig"), s.names...)
	since := moment(t)
	s.choose(t, to)
	apply(t, s.w)
	undisturbed(t, l)
	expectServing(t, s.w, s.names, to.etcd, to.kubernetes)

	all := outages(t, since, s.names...)
	members, replicas := ofUnit(all, "etcd", ""), ofUnit(all, "kube-apiserver", to.kubernetes)
	expectOneAtATime(t, members)
	expectOneAtATime(t, ofUnit(all, "kube-apiserver", ""))
	expectInOrder(t, replicas, s.names, "")
	expectPrepared(t, replicas[0], "/opt/kube/kubernetes/"+to.kubernetes+"/kube-apiserver", s.names)
	if from.etcd == to.etcd {
		if len(members) > 0 {
			t.Errorf("etcd was restarted without need: %v", members)
		}
	} else {
		expectInOrder(t, members, s.names, leader)
		expectPrepared(t, members[0], "/opt/kube/etcd/"+to.etcd+"/etcd", s.names)
		if last := members[len(members)-1]; last.ended > replicas[0].began {
			t.Errorf("Kubernetes was upgraded before etcd: %v; %v", last, replicas[0])
		}
	}
	s.expectSaved(t, from, to, saved)
}

// archive is where a member's machine keeps the snapshots of upgrades.
const archive = "/var/lib/etcd-archive/upgrades"

// snapshots returns the paths of the snapshots of upgrades, as MACHINE:PATH.
func (s *upgradeStory) snapshots(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range s.names {
		for line := range strings.Lines(onMachine(t, shared.lab.Machine(name), `find `+archive+
			` -name '*.db' -size +0 2>/dev/null || true`)) {
			all = append(all, name+":"+strings.TrimSpace(line))
		}
	}
	return all
}

// expectSaved expects that each upgraded product has left one snapshot, which etcd's own tool
// accepts.
func (s *upgradeStory) expectSaved(t *testing.T, from, to versions, before []string) {
	t.Helper()
	var steps []string
	if from.etcd != to.etcd {
		steps = append(steps, "-etcd-"+from.etcd+"-to-"+to.etcd+".db")
	}
	if from.kubernetes != to.kubernetes {
		steps = append(steps, "-kubernetes-"+to.kubernetes+".db")
	}
	saved := slices.DeleteFunc(s.snapshots(t), func(path string) bool { return slices.Contains(before, path) })
	if len(saved) != len(steps) {
		t.Errorf("saved were %q, want one for each of %q", saved, steps)
	}
	for _, step := range steps {
		i := slices.IndexFunc(saved, func(path string) bool { return strings.HasSuffix(path, step) })
		if i < 0 {
			t.Errorf("no snapshot ends in %s: %q", step, saved)
			continue
		}
		name, path, _ := strings.Cut(saved[i], ":")
		t.Logf("%s: %s", saved[i], onMachine(t, shared.lab.Machine(name), "/opt/kube/etcd/"+to.etcd+
			"/etcdutl snapshot status --write-out=json "+path))
	}
}

// pinned returns the version of a set of programs.
func pinned(set string) string {
	version, err := build.Version(set)
	if err != nil {
		panic(err)
	}
	return version
}

// release returns the version of a set of components. They have to be built before the tests
// begin, because the tests' network has no internet access.
func release(t *testing.T, set string) string {
	t.Helper()
	machines(t)
	version := pinned(set)
	product, _, _ := strings.Cut(set, "-")
	if _, err := os.Stat(filepath.Join(shared.components, product+"-v"+version)); err != nil {
		t.Fatalf("%v: make test-long builds what its tests need, bin/kube-lab build %s this one", err, set)
	}
	return version
}
