package controlplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRollbackScripts keeps and restores files in a directory of this computer.
func TestRollbackScripts(t *testing.T) {
	base := t.TempDir()
	dir, kept := filepath.Join(base, "files"), filepath.Join(base, "kept")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(c host.Command, record map[string]machine.KeptFile) error {
		for name, k := range record {
			if strings.Contains(string(c.Script), k.SHA256) {
				t.Errorf("the digest of %s is on the command line", name)
			}
		}
		vars := host.Assignments(map[string]string{"files_dir": dir, "kept_dir": kept})
		// The test runs as any user, who may not give files away.
		command := exec.CommandContext(t.Context(), "sh", "-eu", "-c", "chown() { :; }\n"+string(vars+c.Script))
		command.Stdin = c.Stdin
		out, err := command.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	write("a", "old a")
	write("b", "old b")
	record := map[string]machine.KeptFile{
		"a": {SHA256: machine.Digest([]byte("old a")), Mode: 0o400, Owner: "root"},
		"b": {SHA256: machine.Digest([]byte("old b")), Mode: 0o600, Owner: "root"},
	}
	if err := run(keepCommand(record), record); err != nil {
		t.Fatal(err)
	}
	write("a", "new a")
	if err := run(keepCommand(record), record); err != nil { // after an interruption
		t.Fatal(err)
	}
	for range 2 {
		if err := run(restoreCommand(record), record); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"a": "old a", "b": "old b"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(content) != want {
				t.Errorf("%s is %q, %v", name, content, err)
			}
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != record[name].Mode {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	}
	record["c"] = machine.KeptFile{SHA256: machine.Digest([]byte("never kept")), Mode: 0o600, Owner: "root"}
	if err := run(restoreCommand(record), record); err == nil {
		t.Error("a file whose content was not kept is restored")
	}
}
