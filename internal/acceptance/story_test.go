package acceptance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// A story is one control plane that goes through several changes, because creating one for
// every check would take most of the time. A failed story may leave its machines in any state,
// so the next one gets new machines.

// newStory returns the example for the named machines of the lab. Missing machines are added.
func newStory(t *testing.T, names ...string) *workspace.Workspace {
	t.Helper()
	w := storyOf(t, names, "control-plane")
	choose(t, w, names...)
	return w
}

// storyOf returns one of the examples.
func storyOf(t *testing.T, names []string, example string) *workspace.Workspace {
	t.Helper()
	return storyFrom(t, names, t.TempDir(), func(w *workspace.Workspace) error {
		return w.Make(t.Context(), example, t.Output())
	})
}

// storyFrom fills the workspace in dir with fill and returns it.
func storyFrom(t *testing.T, names []string, dir string, fill func(*workspace.Workspace) error) *workspace.Workspace {
	t.Helper()
	l := machines(t)
	if err := l.Add(t.Context(), missing(l, names)...); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(t.Context(), l, dir, os.Getenv("KUBE_TEST_TERRAFORM"))
	if err != nil {
		t.Fatal(err)
	}
	detectRaces(t, w)
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logWarnings(t, l)
			rebuildAll(t, l)
		}
	})
	t.Cleanup(func() { expectPlanned(t, w) })
	return w
}

// logWarnings logs what etcd, the balancers and systemd have warned of in the last minutes, before the machines are
// made anew.
func logWarnings(t *testing.T, l *lab.Lab) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, m := range l.Machines() {
		out, err := m.Run(ctx, `journalctl --since -4min --no-pager --output=short-precise -u etcd \
  -u 'kube-endpoint-*' -u init.scope | grep -v '"level":"info"' | tail -n 40 | cut -c 1-400`)
		if err == nil && strings.TrimSpace(out) != "" {
			t.Logf("%s:\n%s", m.Name, out)
		}
	}
}

func missing(l *lab.Lab, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return l.Machine(name) != nil })
}

// makeWorkspace returns the example without its machines.
func makeWorkspace(t *testing.T) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(t.Context(), shared.lab, t.TempDir(), os.Getenv("KUBE_TEST_TERRAFORM"))
	if err != nil {
		t.Fatal(err)
	}
	detectRaces(t, w)
	t.Cleanup(func() { expectPlanned(t, w) })
	if err := w.Make(t.Context(), "control-plane", t.Output()); err != nil {
		t.Fatal(err)
	}
	return w
}

// choose sets the map of machines.
func choose(t *testing.T, w *workspace.Workspace, names ...string) {
	t.Helper()
	place(t, w, addresses(names))
}

// addresses returns the named machines as configurations contain them.
func addresses(names []string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = address(name)
	}
	return all
}

// addressList returns the addresses of the named machines.
func addressList(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, address(name))
	}
	return all
}

// place sets the map of machines if names and machines differ.
func place(t *testing.T, w *workspace.Workspace, addresses map[string]string) {
	t.Helper()
	if err := w.WriteJSON("terraform.tfvars.json",
		map[string]any{"machines": addresses, "drain_timeout": "3s"}); err != nil {
		t.Fatal(err)
	}
}

func address(name string) string { return shared.lab.Machine(name).Address.String() }

// override writes text to a Terraform override file of the example.
func override(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "story_override.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// trustNewHostKeys sets the current host keys of the machines in the workspace.
func trustNewHostKeys(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	known, err := shared.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteJSON("trusted.auto.tfvars.json", map[string]any{"ssh_known_hosts": known}); err != nil {
		t.Fatal(err)
	}
}

func rebuildAll(t *testing.T, l *lab.Lab) {
	ctx := context.WithoutCancel(t.Context())
	var group errgroup.Group
	for _, m := range l.Machines() {
		group.Go(func() error { return m.Rebuild(ctx) })
	}
	if err := group.Wait(); err != nil {
		t.Errorf("rebuild the machines: %v", err)
	}
}

// plan returns the output of a plan on one line. The plan must have changes.
func plan(t *testing.T, w *workspace.Workspace, args ...string) string {
	t.Helper()
	text, changes, err := w.Plan(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if !changes {
		t.Errorf("the plan is empty")
	}
	return unfolded(text)
}

// refused runs an apply that has to fail and returns its diagnostics on one line.
func refused(t *testing.T, w *workspace.Workspace, args ...string) string {
	t.Helper()
	began := time.Now()
	_, err := w.Apply(t.Context(), t.Output(), args...)
	if err == nil {
		t.Fatalf("apply %v was not refused", args)
	}
	t.Logf("refused after %.1f s", time.Since(began).Seconds())
	return unfolded(err.Error())
}

// unfolded returns the CLI's text without its frame, line breaks and escapes.
func unfolded(text string) string {
	text = strings.NewReplacer("│", " ", `\"`, `"`, `\n`, " ").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// expectContains fails for each of the words that text does not contain.
func expectContains(t *testing.T, text string, fragments ...string) {
	t.Helper()
	missing := false
	for _, fragment := range fragments {
		if !strings.Contains(text, fragment) {
			missing = true
			t.Errorf("not said: %s", fragment)
		}
	}
	if missing {
		t.Logf("said was:\n%s", text)
	}
}

// steadyScript returns once HAProxy has observed every replica as up for three seconds.
const steadyScript = `
up=0 tries=0
until [ $up = 6 ]; do
  tries=$((tries + 1))
  [ $tries -lt 110 ] || exit 1
  sleep 0.5
  up=$((up + 1))
  /opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show stat -1 4 -1' |
    awk -F, '$1 == "kube-apiserver" && $18 !~ /^UP/ { exit 1 }' || up=0
done`

// awaitRotation waits until API servers have reconnected to an etcd member that was away. The
// longer it was away, the less often they retry.
func awaitRotation(t *testing.T, names ...string) {
	t.Helper()
	var group errgroup.Group
	for _, name := range names {
		group.Go(func() error {
			_, err := shared.lab.Machine(name).Run(t.Context(), steadyScript)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("not every replica came back into rotation: %v", err)
	}
}

// units are the units whose processes unrelated changes must not affect.
var units = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-endpoint-haproxy",
	"kube-endpoint-keepalived",
}

// processes returns each unit's main process and its start time, by "MACHINE UNIT".
func processes(t *testing.T, names ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range names {
		script := fmt.Sprintf("for unit in %s; do echo $unit $(systemctl show --value -p MainPID -p "+
			"ActiveEnterTimestampMonotonic $unit); done", strings.Join(units, " "))
		for line := range strings.Lines(onMachine(t, shared.lab.Machine(name), script)) {
			unit, process, _ := strings.Cut(strings.TrimSpace(line), " ")
			all[name+" "+unit] = process
		}
	}
	return all
}

// expectRestarted compares processes from before with now. Exactly those of must have been
// restarted since. Those of may can have been, as a consequence that the provider does not
// cause.
func expectRestarted(t *testing.T, before map[string]string, must []string, may ...string) {
	t.Helper()
	names := map[string]bool{}
	for key := range before {
		name, _, _ := strings.Cut(key, " ")
		names[name] = true
	}
	now := processes(t, slices.Sorted(maps.Keys(names))...)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		restarted := now[key] != before[key]
		switch {
		case restarted && !slices.Contains(must, key) && !slices.Contains(may, key):
			t.Errorf("%s was restarted without need", key)
		case !restarted && slices.Contains(must, key):
			t.Errorf("%s was not restarted", key)
		}
	}
}

// fingerprints records the machines before anything is installed on them.
func fingerprints(t *testing.T, names ...string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range names {
		all[name] = fingerprint(t, shared.lab.Machine(name))
	}
	return all
}

// expectBare expects the machines to be as before, except for archived data.
func expectBare(t *testing.T, before map[string][]string, names ...string) {
	t.Helper()
	for _, name := range names {
		sameMachine(t, shared.lab.Machine(name), before[name])
	}
}
