package acceptance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// secretScan searches everything that Terraform and the provider leave behind, or expose while they
// run. It collects while they run, and searches at the end, when all secrets are known.
type secretScan struct {
	search *secretscan.Search
	w      *workspace.Workspace
	done   chan struct{}
	ended  sync.WaitGroup

	mu       sync.Mutex
	states   map[string]string // by their text: the name under which it was found
	commands map[string]bool
	journals map[string]string // by machine
}

// samplePause is short compared to the lifetime of any working process.
const samplePause = 10 * time.Millisecond

// newSecretScan starts to collect. It directs the CLI's temporary files to a directory that is
// searched too.
func newSecretScan(t *testing.T, w *workspace.Workspace) *secretScan {
	t.Helper()
	h := &secretScan{
		search: secretscan.New(), w: w, done: make(chan struct{}),
		states: map[string]string{}, commands: map[string]bool{}, journals: map[string]string{},
	}
	temporary := filepath.Join(w.Dir, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Env = append(w.Env, "TMPDIR="+temporary)
	h.ended.Go(h.sample)
	t.Cleanup(h.stop)
	return h
}

func (h *secretScan) stop() {
	select {
	case <-h.done:
	default:
		close(h.done)
	}
	h.ended.Wait()
}

// sample collects every version of the state, and the command lines of all processes. The
// machines' processes are visible on this computer.
func (h *secretScan) sample() {
	tick := time.NewTicker(samplePause)
	defer tick.Stop()
	samples, modified := map[program]int{}, map[string]time.Time{}
	for n := 0; ; n++ {
		h.mu.Lock()
		h.sampleCommands(samples, n%everyRounds == 0)
		h.sampleStates(modified)
		h.mu.Unlock()
		select {
		case <-h.done:
			return
		case <-tick.C:
		}
	}
}

// A new program in a process is sampled more than once, because a newly forked process still has its parent's command
// line. Each process is sampled on at a lower rate: it may execute the same program with other arguments.
const (
	samplesPerProgram = 5
	everyRounds       = 10 // every process is sampled in each tenth round
)

// program is what a process executes.
type program struct{ pid, executable string }

func (h *secretScan) sampleCommands(samples map[program]int, every bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	there := map[program]bool{}
	for _, entry := range entries {
		pid := entry.Name()
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		executable, _ := os.Readlink(filepath.Join("/proc", pid, "exe")) // "" for a thread of the kernel
		p := program{pid, executable}
		there[p] = true
		if samples[p] == samplesPerProgram && !every {
			continue
		}
		samples[p] = min(samples[p]+1, samplesPerProgram)
		if line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")); err == nil { // otherwise it has ended
			h.commands[string(line)] = true
		}
	}
	maps.DeleteFunc(samples, func(p program, _ int) bool { return !there[p] })
}

func (h *secretScan) sampleStates(modified map[string]time.Time) {
	paths, _ := filepath.Glob(filepath.Join(h.w.Dir, "*.tfstate*"))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || modified[path].Equal(info.ModTime()) {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil {
			h.states[string(text)] = fmt.Sprintf("version %d of %s", len(h.states)+1, filepath.Base(path))
			modified[path] = info.ModTime()
		}
	}
}

// collect collects the private keys on machines, and the machines' journals.
func (h *secretScan) collect(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		keys := 0
		for _, file := range keysOn(t, name) {
			keys += h.search.AddFile(name+" "+file.Path, file.Text)
		}
		if keys < 10 { // kubeadm's table lists as many
			t.Errorf("on %s %d private keys were found: the search knows too few of them", name, keys)
		}
		h.collectJournal(t, name)
	}
}

// collectJournal collects a machine's journal with all fields, including the command lines of
// the processes that wrote to it.
func (h *secretScan) collectJournal(t *testing.T, name string) {
	t.Helper()
	h.journals[name] += onMachine(t, shared.lab.Machine(name), "journalctl --no-pager --output=export")
}

// expectNothing ends the scan. may lists parts of the names of files that may contain secrets.
func (h *secretScan) expectNothing(t *testing.T, may ...string) {
	t.Helper()
	h.stop()
	n, size := 0, 0
	for where, data := range h.everything(t) {
		if slices.ContainsFunc(may, func(part string) bool { return strings.Contains(where, part) }) {
			continue
		}
		n, size = n+1, size+len(data)
		for _, fragments := range h.search.In(data) {
			t.Errorf("%s holds %s", where, fragments)
		}
	}
	t.Logf("searched %d texts of together %d MB for %d needles: %d versions of the state, %d command lines", n, size>>20,
		h.search.Len(), len(h.states), len(h.commands))
}

// everything returns all searched data by name.
func (h *secretScan) everything(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"a command line": []byte(strings.Join(slices.Sorted(maps.Keys(h.commands)), "\n")),
	}
	for text, name := range h.states {
		all[name] = []byte(text)
	}
	for machine, text := range h.journals {
		all["the journal of "+machine] = []byte(text)
	}
	files, err := secretscan.Files(h.w.Dir, func(name string) bool { // programs, and what the user supplies
		return name == "mirror" || name == ".terraform" || strings.HasSuffix(name, ".tfvars.json")
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, files)
	return all
}
