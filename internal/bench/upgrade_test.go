package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// TestUpgradeScripts: each machine is out of rotation while it is changed, and the leader's
// member is changed after the others and is no longer the leader by then.
func TestUpgradeScripts(t *testing.T) {
	three := []*lab.Machine{{Name: "cp1"}, {Name: "cp2"}, {Name: "cp3"}}
	o := operator{three: three}
	for name, c := range map[string]struct {
		script []action
		want   []string
	}{
		"members, then replicas": {o.membersThenReplicas(three[1]), []string{
			"cp1 etcd", "cp3 etcd", "cp2 hands over", "cp2 etcd",
			"cp1 kube-apiserver", "cp2 kube-apiserver", "cp3 kube-apiserver",
		}},
		"machine by machine": {o.machineByMachine(three[0]), []string{
			"cp2 kube-apiserver etcd", "cp3 kube-apiserver etcd", "cp1 hands over", "cp1 kube-apiserver etcd",
		}},
	} {
		var took []string
		drained := ""
		for _, a := range c.script {
			switch script := a.script; {
			case strings.Contains(script, "state drain"):
				drained = strings.Fields(strings.SplitAfter(script, "kube-apiserver/")[1])[0]
			case strings.Contains(script, "state ready"):
				drained = ""
			case strings.Contains(script, "move-leader"):
				took = append(took, a.machines[0].Name+" hands over")
			default:
				if len(a.machines) != 1 || a.machines[0].Name != drained {
					t.Errorf("%s: %d machines change while %q is drained", name, len(a.machines), drained)
				}
				args := []string{a.machines[0].Name}
				for _, unit := range []string{"kube-apiserver", "etcd"} {
					if strings.Contains(script, newerUnits+"/"+unit+".service") {
						args = append(args, unit)
					}
				}
				took = append(took, strings.Join(args, " "))
			}
		}
		if !slices.Equal(took, c.want) {
			t.Errorf("%s: %q, want %q", name, took, c.want)
		}
	}
}

// TestUnitFileUnchanged: a unit is written to the machine unchanged, whatever it contains.
func TestUnitFileUnchanged(t *testing.T) {
	const unit = "[Service]\nExecStart=/opt/kube/etcd \\\n  --name=$HOME \"--x='1'\" `id`\n"
	dir := t.TempDir()
	script := strings.ReplaceAll(writeUnits(map[string]string{"etcd": unit}), newerUnits, dir)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "etcd.service"))
	if err != nil || string(got) != unit {
		t.Errorf("laid %q, %v; want %q", got, err, unit)
	}
}
