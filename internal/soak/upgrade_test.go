package soak

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// TestUpgradePaths: the releases of an upgrade path can be built, and each step is an upgrade.
func TestUpgradePaths(t *testing.T) {
	for _, j := range upgradePaths {
		for _, name := range j.builds() {
			if !slices.Contains(build.Names(), name) {
				t.Errorf("%s: package build knows nothing called %q", j.name, name)
			}
		}
		at := j.from
		for _, step := range j.steps {
			fromEtcd, fromKubernetes, err := at.Versions()
			if err != nil {
				t.Fatal(err)
			}
			etcd, kubernetes, err := step.to.Versions()
			if err != nil {
				t.Fatal(err)
			}
			if !later(t, fromKubernetes, kubernetes) || fromEtcd != etcd && !later(t, fromEtcd, etcd) {
				t.Errorf("%s: %s goes from etcd %s and Kubernetes %s to %s and %s", j.name, step.name, fromEtcd, fromKubernetes,
					etcd, kubernetes)
			}
			at = step.to
		}
	}
}

func later(t *testing.T, than, text string) bool {
	t.Helper()
	return version.MustParseSemantic(than).LessThan(version.MustParseSemantic(text))
}

func TestNeeded(t *testing.T) {
	chosen := []Scenario{{Name: "partition"}, {Name: "upgrade", Builds: []string{"etcd-3.5"}}}
	if got, want := needed(chosen), []string{"etcd", "kubernetes", "etcd-3.5"}; !slices.Equal(got, want) {
		t.Errorf("needed are %q, want %q", got, want)
	}
}

func TestRunning(t *testing.T) {
	const printed = "1234567\n" +
		`etcd_server_version{server_version="3.6.16"} 1` + "\n" +
		`{  "major": "1",  "gitVersion": "v1.36.3",  "platform": "linux/amd64"}`
	got, err := parseRunning(printed)
	if want := (running{"3.6.16", "1.36.3", 1234567}); err != nil || got != want {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	for _, broken := range []string{
		"", "soon\nx\n{}", "1\nnothing\n{}",
		"1\netcd_server_version{server_version=\"3.6.16\"} 1\nForbidden",
	} {
		if got, err := parseRunning(broken); err == nil {
			t.Errorf("%q is read as %+v", broken, got)
		}
	}
}

func TestRunResult(t *testing.T) {
	got := map[string]running{
		"cp1": {"3.6.16", "1.36.3", 1}, "cp2": {"3.6.16", "1.35.4", 2},
		"cp3": {"3.5.35", "1.36.3", 3},
	}
	r := runResult("upgrade", "3.6.16", "1.36.3", got)
	if r.Tried != 3 || r.Passed != 1 {
		t.Errorf("%d of %d run it, want 1 of 3", r.Passed, r.Tried)
	}
	for _, want := range []string{"cp2 runs etcd 3.6.16, Kubernetes 1.35.4", "cp3 runs etcd 3.5.35"} {
		if !strings.Contains(r.Detail, want) {
			t.Errorf("the detail lacks %q: %s", want, r.Detail)
		}
	}
}

func TestLeaderLast(t *testing.T) {
	got := map[string]running{"cp1": {started: 900}, "cp2": {started: 1100}, "cp3": {started: 1000}}
	for leader, passed := range map[string]int{"cp2": 1, "cp1": 0, "cp3": 0} {
		r := leaderLast("upgrade", leader, got)
		if r.Tried != 1 || r.Passed != passed || !strings.Contains(r.Detail, "cp1, cp3, cp2") {
			t.Errorf("%s led: %+v", leader, r)
		}
	}
}

func TestRotationResult(t *testing.T) {
	for _, c := range []struct {
		name          string
		log           string
		tried, passed int
		detail        string
	}{
		{"one after the other", "cp1 \n\ncp2 \n\n", 2, 2, "cp1, cp2"},
		{"two at once", "cp1 \ncp1 cp3 \ncp3 \n\n", 3, 2, "cp1, cp1 and cp3, cp3"},
		{"nobody seen", "", 1, 0, "the recording of the balancer failed"},
	} {
		r := rotationResult("upgrade", parseRotation(c.log))
		if r.Tried != c.tried || r.Passed != c.passed || !strings.Contains(r.Detail, c.detail) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}
