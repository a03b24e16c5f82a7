package haproxy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestDrainVerdicts runs the decision that balancers make, beside a HAProxy that
// shows servers in words: name, operational state, administrative state, check.
func TestDrainVerdicts(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		testrun.Missing(t, "no awk on this computer")
	}
	const (
		up      = " 2 0 3"
		down    = " 0 0 2"
		drained = " 2 8 3"
		unseen  = " 2 0 0" // HAProxy takes it for well until its first check
		failing = " 2 0 2" // its last check failed, and it is not down yet
	)
	for _, c := range []struct {
		name    string
		how     leaving
		servers []string
		want    string // the verdict
		state   string // what a was set to; "" for nothing
	}{
		{"all serve, it returns", leavesToReturn, []string{"a" + up, "b" + up, "c" + up}, "drained", "drain"},
		{"another is down, it returns", leavesToReturn, []string{"a" + up, "b" + down, "c" + up}, "another", "ready"},
		{"another is down, it leaves", leavesAlone, []string{"a" + up, "b" + down, "c" + up}, "drained", "drain"},
		{"another is drained, it returns", leavesToReturn, []string{"a" + up, "b" + drained, "c" + up}, "another", "ready"},
		{"no other serves, it returns", leavesToReturn, []string{"a" + up, "b" + down}, "last", "ready"},
		{"no other serves, it leaves", leavesAlone, []string{"a" + up, "b" + down}, "last", "ready"},
		{"no other serves, it leaves under protection", leavesOthers, []string{"a" + up, "b" + drained}, "last", "ready"},
		{"the only one returns", leavesToReturn, []string{"a" + up}, "drained", "drain"},
		{"the only one leaves", leavesAlone, []string{"a" + up}, "drained", "drain"},
		{"the only one leaves under protection", leavesOthers, []string{"a" + up}, "last", "ready"},
		{"it fails its checks", leavesToReturn, []string{"a" + down, "b" + down}, "idle", "drain"},
		{"it fails its checks, under protection", leavesOthers, []string{"a" + down}, "idle", "drain"},
		{"it is not registered", leavesOthers, []string{"b" + up}, "unknown", ""},
		{"nobody is registered", leavesOthers, nil, "unknown", ""},
		// A drain that was cut off does not make a replica one that serves nothing.
		{"it was drained before and is the last", leavesOthers, []string{"a" + drained, "b" + down}, "last", "ready"},
		{
			"it was drained before while another is out", leavesToReturn,
			[]string{"a" + drained, "b" + down, "c" + up},
			"another", "ready",
		},
		{"it was drained before, all others serve", leavesToReturn, []string{"a" + drained, "b" + up}, "drained", "drain"},
		// A reload makes HAProxy take everything for well: only a check counts.
		{"the others were not checked yet", leavesOthers, []string{"a" + up, "b" + unseen}, "last", "ready"},
		{"another is failing", leavesToReturn, []string{"a" + up, "b" + failing, "c" + up}, "another", "ready"},
		{"it was not checked yet itself", leavesOthers, []string{"a" + unseen}, "last", "ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines strings.Builder
			for _, server := range c.servers {
				name, states, _ := strings.Cut(server, " ")
				lines.WriteString(name + " 10.0.0.1:6443 " + states + "\n")
			}
			script := "set -eu\nactive() { :; }\nrunning() { printf '%s' '" + lines.String() +
				"'; }\nask() { echo \"asked $1\" >&2; }\n" +
				"name=a leaving=" + string(c.how) + "\n" + string(drainScript)
			run := exec.CommandContext(t.Context(), "sh", "-c", script)
			var asked strings.Builder
			run.Stderr = &asked
			out, err := run.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, asked.String())
			}
			if verdict, _ := answer(string(out)); verdict != c.want {
				t.Errorf("verdict %q, want %q", verdict, c.want)
			}
			if want := "state " + c.state; c.state != "" && !strings.Contains(asked.String(), want) || c.state == "" &&
				asked.Len() > 0 {
				t.Errorf("asked HAProxy %q, want %q", asked.String(), want)
			}
		})
	}
}
