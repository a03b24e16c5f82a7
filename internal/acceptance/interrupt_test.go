package acceptance

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// interruption interrupts an apply when the first resource of a type begins.
type interruption struct {
	name string
	when string // resource type
	cut  func(t *testing.T, w *workspace.Workspace, terraform *os.Process)
}

var killedReplicas = interruption{"provider killed while replicas start", "kube_control_plane_replica", killProvider}

var interruptions = []interruption{
	{"Ctrl-C while members bootstrap", "kube_etcd_member", ctrlC},
	{"provider killed while members bootstrap", "kube_etcd_member", killProvider},
	{"Ctrl-C while replicas start", "kube_control_plane_replica", ctrlC},
}

// TestInterrupted interrupts an apply in the worst way. The next apply converges from whatever state is left.
func TestInterrupted(t *testing.T) { testInterrupted(t, killedReplicas) }

// TestInterruptions interrupts applies in the other ways, one after the other, on the same machines.
func TestInterruptions(t *testing.T) { testInterrupted(t, interruptions...) }

func testInterrupted(t *testing.T, interruptions ...interruption) {
	t.Helper()
	machines(t)
	names := []string{"cp1", "cp2", "cp3"}
	w := newWorkspace(t, len(names))
	for _, i := range interruptions {
		t.Run(i.name, func(t *testing.T) {
			interrupt(t, w, i)
			apply(t, w)
			expectHealthy(t, w, names)
			apply(t, w, "-destroy")
		})
	}
}

// interrupt runs an apply that is interrupted.
func interrupt(t *testing.T, w *workspace.Workspace, i interruption) {
	t.Helper()
	begun := func(line string) bool {
		return strings.Contains(line, `"type":"apply_start"`) && strings.Contains(line, i.when)
	}
	cutWhen(t, w, begun, func(terraform *os.Process) { i.cut(t, w, terraform) })
}

// cutWhen runs an apply and interrupts it at a line of its output.
func cutWhen(t *testing.T, w *workspace.Workspace, when func(line string) bool, cut func(terraform *os.Process)) {
	t.Helper()
	cmd := w.Command(t.Context(), "apply", "-json", "-input=false", "-auto-approve")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !done && when(lines.Text()) {
			cut(cmd.Process)
			done = true
		}
	}
	if err := cmd.Wait(); !done || err == nil || lines.Err() != nil {
		t.Fatalf("the apply ended by itself, or not all of its output was read (cut: %v): %v", done,
			errors.Join(err, lines.Err()))
	}
}

func ctrlC(t *testing.T, _ *workspace.Workspace, terraform *os.Process) {
	t.Helper()
	if err := terraform.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// killProvider kills this workspace's provider processes, which it identifies by their program.
func killProvider(t *testing.T, w *workspace.Workspace, _ *os.Process) {
	t.Helper()
	program, err := filepath.EvalSymlinks(w.ProviderPath())
	if err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != program {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			t.Fatal(err)
		}
		switch err := syscall.Kill(pid, syscall.SIGKILL); {
		case errors.Is(err, syscall.ESRCH): // it has ended meanwhile
		case err != nil:
			t.Fatal(err)
		default:
			killed++
		}
	}
	if killed == 0 {
		t.Fatalf("no process runs %s", program)
	}
}
