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

// serversState is HAProxy's answer to "show servers state" with these servers, each as "NAME IP PORT".
func serversState(servers ...string) string {
	var text strings.Builder
	text.WriteString("1\n# be_id be_name srv_id srv_name srv_addr srv_op_state …\n")
	for _, server := range servers {
		fields := strings.Fields(server)
		text.WriteString("3 kube-apiserver 1 " + fields[0] + " " + fields[1] + " 2 0 1 1 5 6 3 7 6 0 0 0 - " + fields[2] +
			" - 0 0 - - 0\n")
	}
	return text.String()
}

// TestReloadsOutdated: an apply reloads a HAProxy that runs with other servers than its file lists, also if the apply
// does not change the file.
func TestReloadsOutdated(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		testrun.Missing(t, "no awk on this computer")
	}
	list := renderBackends(testVIP, []server{serverAt("r1", "10.0.0.11:6443"), serverAt("r3", "[fd00::13]:6443")}, nil)
	answers := func(servers ...string) string { return "cat <<'E'\n" + serversState(servers...) + "E" }
	const one, three = "r1 10.0.0.11 6443", "r3 fd00::13 6443"
	for name, c := range map[string]struct {
		ask    string // the program that asks HAProxy
		listed string
		reload bool
	}{
		"it runs with the list":               {answers(three, one), list, false},
		"one more, whose replica was deleted": {answers(one, "r2 10.0.0.12 6443", three), list, true},
		"one is missing":                      {answers(one), list, true},
		"one has another port":                {answers("r1 10.0.0.11 7443", three), list, true},
		"none, as the list":                   {answers(), backendsHeader, false},
		"it does not answer":                  {"exit 4", list, false},
		"it ends while it is asked":           {"exit 0", list, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, content string) string {
				at := filepath.Join(dir, file)
				if err := os.WriteFile(at, []byte(content), 0o700); err != nil {
					t.Fatal(err)
				}
				return at
			}
			backends, program := write("20-backends.cfg", c.listed), write("ask", "#!/bin/sh\n"+c.ask+"\n")
			text := "set -eu\nCHANGED=\n" + host.Assignments(map[string]string{
				"config": dir, "calls": filepath.Join(dir, "calls"), "servers": c.listed, "listed": sha256Hex([]byte(c.listed)),
				"hung": "", "step": "", "vips": testVIP,
			}) + "lock() { :; }\nflush() { :; }\nwhose() { echo ours; }\nip() { :; }\nhaproxy() { :; }\n" +
				"stat() { echo 644:root:root; }\nsystemctl() { echo \"$*\" >>\"$calls\"; }\n" + runningScript + applyScript
			script := strings.ReplaceAll(string(text), askPath, program)
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(strings.Split(string(calls), "\n"), "reload "+haproxyUnit); got != c.reload {
				t.Errorf("HAProxy is reloaded: %v, want %v:\n%s", got, c.reload, calls)
			}
			if now, err := os.ReadFile(backends); err != nil || string(now) != c.listed {
				t.Errorf("the list became\n%s%v", now, err)
			}
		})
	}
}

// TestReloadKeepsStates: a new worker gets the states of the servers that the old one has and the file lists. If
// HAProxy does not say them, nothing is reloaded: a draining server would be back in rotation.
func TestReloadKeepsStates(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		testrun.Missing(t, "no awk on this computer")
	}
	const one, two, before = "r1 10.0.0.11 6443", "r2 10.0.0.12 6443", "the states of before\n"
	for name, c := range map[string]struct {
		states, want string // of servers: what HAProxy says, and what the new worker reads
		fails        bool
	}{
		"it answers":                {"cat <<'E'\n" + serversState(one, two) + "E", serversState(one), false},
		"it does not answer":        {"exit 1", before, true},
		"it ends while it is asked": {"exit 0", before, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, content string) {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write("servers.state", before)
			write("20-backends.cfg", renderBackends(testVIP, []server{serverAt("r1", "10.0.0.11:6443")}, nil))
			write("ask", "#!/bin/sh\ncase $2 in 'show info') echo Pid: 1$(cat '"+dir+"/killed' 2>/dev/null); exit;; esac\n"+
				c.states+"\n")
			script := strings.NewReplacer("/etc/haproxy/kube", dir, "/run/kube-endpoint", dir, askPath, dir+"/ask").
				Replace("haproxy() { :; }\nkill() { echo 2 >'" + dir + "/killed'; }\n" + string(reloadProgram))
			out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "reload", "1").CombinedOutput()
			if (err != nil) != c.fails || c.fails && !strings.Contains(string(out), "states of its servers") {
				t.Errorf("%v: %s", err, out)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "servers.state")); err != nil || string(got) != c.want {
				t.Errorf("the states became %q, %v, wanted %q", got, err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "killed")); (err != nil) != c.fails {
				t.Errorf("whether it was reloaded: %v", err)
			}
		})
	}
}

// TestRunningDrift: a server that HAProxy still runs with is drift, whatever its state, but not while it is reloaded.
func TestRunningDrift(t *testing.T) {
	s := threeHosts()
	one, two := serverAt("r1", "10.0.0.11:6443"), serverAt("r2", "10.0.0.12:6443")
	running := func(servers ...stat) balancer {
		b := withList(asRendered(s, "cp1"), s.Address, renderBackends(s.Address, []server{one}, nil))
		b.stats = servers
		return b
	}
	up, down := stat{Name: one.Name, Address: one.Address, Status: "UP"},
		stat{Name: two.Name, Address: two.Address, Status: "DOWN"}
	maintained, moved := up, up
	maintained.Status, moved.Address = "MAINT", two.Address
	reloading := running(up, down)
	reloading.facts.Units[haproxyUnit] = host.UnitState{Load: "loaded", Active: "reloading", Enabled: "enabled"}
	for name, c := range map[string]struct {
		b    balancer
		want []string
	}{
		"as listed":             {running(up), nil},
		"as listed, maintained": {running(maintained), nil},
		"no answer":             {running(), nil},
		"reloading":             {reloading, nil},
		"one that is not listed": {running(up, down), []string{
			"HAProxy runs with r2 (10.0.0.12:6443), which /etc/haproxy/kube/20-backends.cfg does not list",
		}},
		"another address": {running(moved), []string{
			"HAProxy runs with r1 (10.0.0.12:6443), which /etc/haproxy/kube/20-backends.cfg does not list",
		}},
	} {
		if got := drift(s, "cp1", c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
