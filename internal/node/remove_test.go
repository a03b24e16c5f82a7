package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRecordGoesLast: the record of what leaves goes after everything else, also if the kubelet stays because something
// else needs it, and not if the removal fails.
func TestRecordGoesLast(t *testing.T) {
	const leaving, other = "/etc/kubernetes/replica.json", "/etc/etcd/member.json"
	for name, c := range map[string]struct {
		files  []string
		record string // of the installation
		gone   bool
	}{
		"nothing was installed":          {[]string{leaving}, "", true},
		"a member needs the kubelet":     {[]string{leaving, other}, "{}", true},
		"the removal fails in its midst": {[]string{leaving}, "{}", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, content string) {
				at := filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, path := range c.files {
				write(path, "")
			}
			if c.record != "" {
				write(RecordPath, c.record)
			}
			command := removal(leaving, host.Script("rm "+leaving+"\n"))
			// What follows the checks is not run: it would remove programs of this computer.
			script := strings.Replace(string(command.Script), "\nnode_until=", "\nfalse\nnode_until=", 1)
			text := strings.ReplaceAll(string(host.Assignments(command.Vars))+script, "/etc/", dir+"/etc/")
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", text).CombinedOutput()
			_, kept := os.Stat(filepath.Join(dir, leaving))
			if (err == nil) != c.gone || (kept != nil) != c.gone {
				t.Errorf("%v: %s; the record is there: %t", err, out, kept == nil)
			}
			if _, err := os.Stat(filepath.Join(dir, RecordPath)); c.record != "" && err != nil {
				t.Errorf("the record of the installation is gone: %v", err)
			}
		})
	}
}
