package kubelet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// TestDrops: the flag that the new kubelet does not have is removed from kubeadm's file, which is replaced as a whole:
// its new content is on the disk before it gets the name.
func TestDrops(t *testing.T) {
	dir := t.TempDir()
	flags, log := filepath.Join(dir, "kubeadm-flags.env"), filepath.Join(dir, "log")
	const rest = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/containerd.sock"
	run := func(version string) {
		t.Helper()
		script := strings.ReplaceAll(string(functions(version)), "/var/lib/kubelet", dir)
		cmd := exec.Command("sh", "-euc", "flush() { cat \"$1\" >>"+log+" 2>/dev/null || true; }\n"+script+"\nkubelet_drops")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("1.36.3") // without a file
	before := rest + " --pod-infra-container-image=registry.k8s.io/pause:3.10\"\n"
	if err := os.WriteFile(flags, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	run("1.34.2")
	if text, err := os.ReadFile(flags); err != nil || string(text) != before {
		t.Errorf("a kubelet that has the flag: %q, %v", text, err)
	}
	run("1.36.3")
	run("1.36.3")
	info, err := os.Stat(flags)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(flags)
	flushed, _ := os.ReadFile(log)
	if want := rest + "\"\n"; string(text) != want || string(flushed) != want || info.Mode().Perm() != 0o640 {
		t.Errorf("%q with mode %o, flushed before it was renamed: %q", text, info.Mode().Perm(), flushed)
	}
	if left, err := filepath.Glob(flags + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPathsOfAChange: what the steps of a change keep and restore are the files that this package names.
func TestPathsOfAChange(t *testing.T) {
	script := string(staticpod.Functions()) + `echo "$pod_kubelet_unit $pod_program $pod_former"`
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
	if want := Unit + " " + DropIn + " " + Former + "\n"; err != nil || string(out) != want {
		t.Errorf("the scripts have %q, %v, want %q", out, err, want)
	}
}
