package haproxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestServersAreNotExecuted: a line in the servers' file of one balancer is not
// executed on another one, however it is made up.
func TestServersAreNotExecuted(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "executed")
	s := threeHosts()
	hostile := backendsHeader + "    server zz';id>" + mark + ";:' 10.90.0.12:6443\n"
	seen := map[string]balancer{"cp1": withList(asRendered(s, "cp1"), s.Address, hostile), "cp2": asRendered(s, "cp2")}
	c := change(s, "cp2", seen["cp2"], s.servers(t.Context(), seen)["cp2"])
	script := string(host.Assignments(c.Vars) + c.Script)
	output, _ := exec.Command("sh", "-euc", script, "kube").CombinedOutput() // it fails where there is no balancer
	if _, err := os.Stat(mark); err == nil {
		t.Errorf("the line was executed: %s\n%s", output, script)
	}
}
