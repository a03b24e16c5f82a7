package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestDrillEndsBeforeTheMember: what unmounts or removes the data ends a drill on the machine first, and what does
// neither leaves it alone.
func TestDrillEndsBeforeTheMember(t *testing.T) {
	s := onVolume(t)
	for name, c := range map[string]struct {
		action Action
		ends   bool
	}{
		"leave":             {s.LeaveAction(Observed{}), true},
		"clear":             {s.ClearAction(Observed{}, true), true},
		"start, mounted":    {Action{Verb: Start, DataDir: s.Directory(), Remount: true}, true},
		"return, mounted":   {Action{Verb: Start, DataDir: s.Directory(), Remount: true, Returns: true}, true},
		"start":             {Action{Verb: Start}, false},
		"retire":            {Action{Verb: Retire, DataDir: s.Directory()}, false},
		"leave the runtime": {Action{Verb: LeaveRuntime}, false},
	} {
		script := whole(c.action)
		ends, stops := strings.Index(script, "\nend_drill\n"), strings.Index(script, "\nmember_stop")
		if (ends >= 0) != c.ends || ends > stops ||
			c.ends && !strings.Contains(script[:ends], "root="+s.Directory()+"-archive\n") {
			t.Errorf("%s: the drill ends at %d, the member at %d:\n%s", name, ends, stops, script)
		}
	}
}

// TestEndDrill: nothing is stopped where there is no drill, and nothing fails.
func TestEndDrill(t *testing.T) {
	for name, c := range map[string]struct {
		units, data bool
		want        []string // of what is asked
	}{
		"no drill": {false, false, []string{"list-units"}},
		"a drill": {true, true, []string{
			"stop kube-restore-drill-door.socket", "stop kube-restore-drill-fetch.service", "stop kube-restore-drill.service",
			"stop kubedrill.slice", "stop kube-restore-drill-guard.timer",
		}},
		"what a power cut has left": {false, true, []string{"stop kube-restore-drill.service"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, run := filepath.Join(dir, "archive"), filepath.Join(dir, "run")
			systemctl := "#!/bin/sh\necho \"$*\" >>" + dir + "/asked\n"
			if c.units {
				systemctl += "[ \"$1\" != list-units ] || { echo kube-restore-drill.service; exit 0; }\n"
			}
			if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(systemctl+"[ \"$1\" = list-units ]\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
			if c.data {
				if err := os.MkdirAll(filepath.Join(root, "drill"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.CommandContext(t.Context(), "sh", "-euc",
				string(host.Assignments(map[string]string{"root": root, "run": run})+DrillFunctions+"end_drill\n"))
			command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			if out, err := command.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil && (c.units || !c.data) {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(asked), want) {
					t.Errorf("systemd was not asked to %s:\n%s", want, asked)
				}
			}
			if !slices.ContainsFunc(c.want, func(s string) bool { return strings.HasPrefix(s, "stop") }) &&
				strings.Contains(string(asked), "stop") {
				t.Errorf("without a drill, systemd was asked\n%s", asked)
			}
			if _, err := os.Stat(filepath.Join(root, "drill")); err == nil {
				t.Error("the data is left")
			}
		})
	}
}
