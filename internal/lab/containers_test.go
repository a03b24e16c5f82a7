package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// TestContainers runs a program in a container on a machine, also after the machine was killed. Nothing of containers
// is left on this computer.
func TestContainers(t *testing.T) {
	l := up(t, "boxes", "a")
	m := l.Machine("a")
	const image = "registry.example.com/pod:1"
	if err := m.RebuildForContainers(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	importImage(t, m, image)
	const hello = "ctr -n k8s.io run --rm " + image + " hello /pod echo hello container"
	if got := sh(t, m, hello); got != "hello container\n" {
		t.Errorf("the container says %q", got)
	}
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "ctr -n k8s.io containers rm hello 2>/dev/null; true")
	if got := sh(t, m, hello); got != "hello container\n" {
		t.Errorf("the container says %q after a crash of the machine", got)
	}
	if err := m.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, m, "ls /var/lib/containerd 2>&1 || true"); !strings.Contains(got, "No such file") {
		t.Errorf("a machine without containers has %q", got)
	}
	destroy(t, l.Name)
	groups, err := filepath.Glob("/sys/fs/cgroup/*/k8s.io") // runc makes this one below the machine's
	if rests := append(leftovers(t, l.Name), groups...); err != nil || len(rests) > 0 {
		t.Errorf("left behind: %s, %v", rests, err)
	}
}

func importImage(t *testing.T, m *lab.Machine, reference string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.tar")
	if err := build.PodImage(t.Context(), reference, path); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := m.ImportImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}
