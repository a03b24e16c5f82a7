package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestPodStarts: whatever a stop of a static pod has come to, the member starts again from what it ran from.
func TestPodStarts(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "etcd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kubeadm := string(manifest)
	own := string(podSpec(t).pod().Manifest())
	const (
		placed, defined = "manifests/etcd.yaml", "etcd/etcd.yaml"
		kept, marked    = "inherited/etcd.yaml", "inherited/.etcd.returns"

		paused host.Script = "member_pause\nmember_resume\n"
		cutOff host.Script = "(pod_fails=yes; member_pause) || member_resume\n"
	)
	for name, c := range map[string]struct {
		script host.Script
		files  map[string]string
		want   string // the manifest
		stops  int
	}{
		"a refused restore that stopped nothing": {
			"member_resume_stopped\n", map[string]string{placed: own, defined: own}, own, 0,
		},
		"a refused restore without a member": {"member_resume_stopped\n", nil, "", 0},
		"a refused restore of a stopped member": {
			"member_resume_stopped\n", map[string]string{defined: own}, own, 0,
		},
		"a pause":                      {paused, map[string]string{placed: own, defined: own}, own, 1},
		"a pause without a definition": {paused, map[string]string{placed: own}, own, 1},
		"a pause of kubeadm's":         {paused, map[string]string{placed: kubeadm}, kubeadm, 1},
		"the end of an earlier pause": {
			"member_resume\n", map[string]string{kept: kubeadm, marked: "", defined: own}, kubeadm, 0,
		},
		"a stop that takes too long":      {cutOff, map[string]string{placed: own, defined: own}, own, 1},
		"kubeadm's, which takes too long": {cutOff, map[string]string{placed: kubeadm}, kubeadm, 1},
		"a stop for a while":              {"member_stop\nmember_start\n", map[string]string{placed: own}, own, 1},
	} {
		dir := t.TempDir()
		for _, sub := range []string{"manifests", "etcd", "inherited"} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := host.FlushFunction() + runtimeFunctions() + host.Assignments(map[string]string{
			"pod_manifests": dir + "/manifests", "member_unit_file": dir + "/unit", "member_definition": dir + "/" + defined,
			"member_inherited": dir + "/inherited", "pod_fails": "",
		}) + `systemctl() { echo not-found; }
member_own() { :; }
member_guard() { :; }
pod_kubelet_recover() { :; }
pod_containers() { return 1; }
pod_stop() {
  echo stop
  rm -f -- "$pod_manifests/$1.yaml"
  [ -z "$pod_fails" ] || exit 1
}
` + c.script
		out, err := exec.Command("sh", "-euc", string(script)).CombinedOutput()
		if err != nil || strings.Count(string(out), "stop\n") != c.stops {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, placed)); string(now) != c.want {
			t.Errorf("%s: the manifest is\n%s", name, now)
		}
	}
}
