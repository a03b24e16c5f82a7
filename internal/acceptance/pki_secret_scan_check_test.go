package acceptance

import (
	"archive/zip"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestSecretScan places a key in every location that a scan searches, and checks that the scan finds
// it: in a state that was overwritten, in a plan, a crash log, a machine's journal and the
// command line of a process on a machine.
func TestSecretScan(t *testing.T) {
	l := machines(t)
	key := keyPEM(t, newKey(t))
	w := &workspace.Workspace{Dir: t.TempDir()}
	h := newSecretScan(t, w)
	if h.search.AddPEM("the planted key", key) != 1 {
		t.Fatal("the planted key is none")
	}
	line := strings.Split(key, "\n")[1]
	state := filepath.Join(w.Dir, "terraform.tfstate")
	write(t, state, quoted(t, key))
	process := onMachine(t, l.Machine("cp1"), "logger -t planted "+line+"; journalctl --sync\n"+
		"setsid sh -c ': "+line+"; sleep 600; :' >/dev/null 2>&1 & echo $!")
	await(t, "the state or the command line was not sampled", func() bool { return h.has(line) && h.hasCommand(line) })
	onMachine(t, l.Machine("cp1"), "kill -- -"+strings.TrimSpace(process))
	write(t, state, "{}")
	write(t, filepath.Join(w.Dir, "crash.log"), key)
	writePlan(t, filepath.Join(w.Dir, "saved.tfplan"), quoted(t, key))
	h.collectJournal(t, "cp1")
	h.stop()
	observed := map[string]bool{}
	for where, data := range h.everything(t) {
		if len(h.search.In(data)) > 0 {
			observed[where] = true
		}
	}
	want := []string{
		"a command line", "crash.log", "saved.tfplan → tfplan", "the journal of cp1",
		"version 1 of terraform.tfstate",
	}
	if got := slices.Sorted(maps.Keys(observed)); !slices.Equal(got, want) {
		t.Errorf("the planted key was found in %q, want %q", got, want)
	}
}

// TestSecretScanOfLaterCommands: the command line is sampled of a process that executes something else later, the same
// program too.
func TestSecretScanOfLaterCommands(t *testing.T) {
	h := newSecretScan(t, &workspace.Workspace{Dir: t.TempDir()})
	for later, line := range map[string]string{
		"sh -c ': kube-same-program; sleep 2; :'": "sh\x00-c\x00: kube-same-program; sleep 2; :\x00",
		"sleep 2.0625": "sleep\x002.0625\x00",
	} {
		command := exec.CommandContext(t.Context(), "sh", "-c", "sleep 0.5; exec "+later)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "a later command line was not sampled", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.commands[line]
		})
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// has reports whether a text was sampled from a state.
func (h *secretScan) has(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for state := range h.states {
		if strings.Contains(state, text) {
			return true
		}
	}
	return false
}

// hasCommand reports whether a text was sampled from a command line.
func (h *secretScan) hasCommand(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for command := range h.commands {
		if strings.Contains(command, text) {
			return true
		}
	}
	return false
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writePlan writes a simulated plan file: a compressed zip archive.
func writePlan(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	part, err := archive.Create("tfplan")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// quoted returns a text as a program writes it in JSON.
func quoted(t *testing.T, text string) string {
	t.Helper()
	document, err := json.Marshal(map[string]string{"key": text})
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}
