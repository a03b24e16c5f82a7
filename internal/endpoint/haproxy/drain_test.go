package haproxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
			verdict, asked := drainVerdict(t, c.how, 0, c.servers)
			if verdict != c.want {
				t.Errorf("verdict %q, want %q", verdict, c.want)
			}
			if want := "state " + c.state; c.state != "" && !strings.Contains(asked, want) || c.state == "" && asked != "" {
				t.Errorf("asked HAProxy %q, want %q", asked, want)
			}
		})
	}
}

// drainVerdict runs the decision of a balancer about server a. It returns the verdict, and what HAProxy was asked for.
func drainVerdict(t *testing.T, how leaving, known int, servers []string) (verdict, asked string) {
	t.Helper()
	var lines, stderr strings.Builder
	for _, server := range servers {
		name, states, _ := strings.Cut(server, " ")
		lines.WriteString(name + " 10.0.0.1:6443 " + states + "\n")
	}
	script := "set -eu\nactive() { :; }\nrunning() { printf '%s' '" + lines.String() +
		"'; }\nask() { echo \"asked $1\" >&2; }\n" +
		string(host.Assignments(drain("a", how, known).Vars)) + string(drainScript)
	run := exec.CommandContext(t.Context(), "sh", "-c", script)
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	verdict, _ = answer(string(out))
	return verdict, stderr.String()
}

// TestDrainFromAnOldList: a balancer that was down while other replicas registered lists only the one that leaves. It
// may have the address, and would send requests to nobody. What other balancers have counts, and the last replica of
// all may leave.
func TestDrainFromAnOldList(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		testrun.Missing(t, "no awk on this computer")
	}
	const up, down = " 2 0 3", " 0 0 2"
	old := lists(testVIP, serverAt("a", "10.0.0.11:6443"))
	full := lists(testVIP, serverAt("a", "10.0.0.11:6443"), serverAt("b", "10.0.0.12:6443"),
		serverAt("c", "10.0.0.13:6443"))
	running := old
	running.stats = []stat{{Name: "a", Status: "UP"}, {Name: "b", Status: "UP"}}
	lost := full
	lost.unreachable = host.ErrUnreachable
	for _, c := range []struct {
		name    string
		how     leaving
		seen    map[string]balancer // all of the endpoint
		servers []string            // of the balancer that is asked
		want    string
	}{
		{"it returns", leavesToReturn, map[string]balancer{"b1": full, "b2": old}, []string{"a" + up}, "last"},
		{"it leaves", leavesAlone, map[string]balancer{"b1": full, "b2": old}, []string{"a" + up}, "last"},
		{
			"another one serves", leavesAlone,
			map[string]balancer{"b1": full, "b2": old},
			[]string{"a" + up, "b" + up},
			"drained",
		},
		{"it fails its checks", leavesAlone, map[string]balancer{"b1": full, "b2": old}, []string{"a" + down}, "idle"},
		{
			"HAProxy runs with another one", leavesToReturn,
			map[string]balancer{"b1": running, "b2": old},
			[]string{"a" + up},
			"last",
		},
		{"the only one of all", leavesToReturn, map[string]balancer{"b1": old, "b2": old}, []string{"a" + up}, "drained"},
		{"the last one of all", leavesAlone, map[string]balancer{"b1": old, "b2": lost}, []string{"a" + up}, "drained"},
	} {
		others := otherReplicas("a", c.seen)
		if verdict, asked := drainVerdict(t, c.how, len(others), c.servers); verdict != c.want || asked == "" {
			t.Errorf("%s, others are %q: verdict %q, want %q", c.name, others, verdict, c.want)
		}
	}
	at := []stat{{Name: "a", Status: "UP"}, {Name: "b", Status: "DOWN"}}
	for want, others := range map[string][]string{
		"fails its health check": {"b"}, "runs without c, which": {"b", "c"}, "without b, c": {"b", "c"},
	} {
		stats := at
		if want == "without b, c" {
			stats = at[:1]
		}
		cause, next := refusal(answerLast, others, stats)
		if !strings.Contains(cause, want) || strings.Contains(next, "apply the endpoint") != (len(others) == 2) {
			t.Errorf("cause %q, next %q, want %q", cause, next, want)
		}
	}
	if cause, _ := refusal(answerAnother, []string{"b", "c"}, at); !strings.Contains(cause, "at most one") {
		t.Errorf("another one is out: %q", cause)
	}
}

// TestSilentHAProxy: of a HAProxy that runs and does not answer nobody knows which servers it has.
func TestSilentHAProxy(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		testrun.Missing(t, "no awk on this computer")
	}
	dir := t.TempDir()
	for _, name := range []string{"10-endpoint.cfg", "20-backends.cfg"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(script host.Script, ask, active string) (string, error) {
		program := filepath.Join(dir, "ask")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+ask+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "set -eu\nlock() { :; }\nunless_other() { :; }\n" +
			host.Assignments(map[string]string{"config": dir, "name": "a", "leaving": string(leavesOthers), "seconds": "1"}) +
			runningScript + backendsScript + "\nactive() { " + host.Script(active) + "; }\nput() { :; }\n" + script
		asked := strings.ReplaceAll(string(text), "/opt/kube/endpoint/ask", program)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", asked).Output()
		return string(out), err
	}
	for name, script := range map[string]host.Script{
		"drain": drainScript, "deregister": deregisterScript, "wait": waitScript,
	} {
		// One that is killed while it hangs ends the connection without an answer.
		for _, ask := range []string{"exit 4", "exit 0"} {
			if out, err := run(script, ask, ":"); err == nil || out != "" {
				t.Errorf("%s, %s: %q, %v: want an error, and no verdict", name, ask, out, err)
			}
		}
	}
	if out, err := run(waitScript, "exit 4", "false"); err != nil || out != "0\n" {
		t.Errorf("sessions of a HAProxy that has ended: %q, %v", out, err)
	}
}

// TestRefusedDrain: a refusal says that nothing was changed, so the replica returns to rotation on each balancer that
// has drained it, also where its checks fail for the moment.
func TestRefusedDrain(t *testing.T) {
	got := returning(map[string]string{
		"lb1": "drained\n", "lb2": "idle\n", "lb3": "another\n# pxname", "lb4": "last\n# pxname", "lb5": "unknown\n",
		"lb6": "absent\n", "lb7": "stopped\n",
	})
	if want := []string{"lb1", "lb2"}; !slices.Equal(got, want) {
		t.Errorf("it returns on %v, wanted %v", got, want)
	}
}
