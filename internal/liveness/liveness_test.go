package liveness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

var probe = Probe{
	Name: "kube-liveness", Script: "/etc/kubernetes/liveness.sh", Wanted: true,
	Components: []Component{{
		Unit: "kube-apiserver.service", Ready: "https://10.0.0.11:6443/readyz", Live: "https://10.0.0.11:6443/livez",
		Rule: ServerRule,
	}},
}

const invocation = "0123456789abcdef0123456789abcdef"

func stateOf(content string) host.Facts {
	return host.Facts{
		Files: map[string]host.FileState{"/run/kube-liveness/kube-apiserver.service": {Content: content}},
		Units: map[string]host.UnitState{
			"kube-apiserver.service": {Invocation: invocation}, "kube-liveness.timer": {Active: "active"},
		},
	}
}

func TestNotReady(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"ready", invocation + " 1 0 0 0\n", ""},
		{"not ready for a while", invocation + " 1 3 100 240\n", ""},
		{"for too long", invocation + " 1 0 100 241\n", "it has not been ready for longer than 4m0s"},
		{
			"hangs", invocation + " 1 24 100 300\n",
			"it has not been ready for longer than 4m0s (24 liveness probes in a row failed)",
		},
		{
			"one failure", invocation + " 1 1 100 300\n",
			"it has not been ready for longer than 4m0s (1 liveness probes in a row failed)",
		},
		{"never since its start", invocation + " 0 0 100 300\n", "it has not been ready for longer than 4m0s"},
		{"an earlier process", strings.Repeat("f", 32) + " 1 24 100 300\n", ""},
		{"no state", "", ""},
		{"cut off", invocation + " 1 24 100", ""},
		{"not a state", "$(reboot) 1 24 100 300\n", ""},
		{"too much", invocation + " 1 24 100 99999999999999999999\n", ""},
		{"two lines", invocation + " 1 24 100 300\nx\n", ""},
	} {
		if got := probe.NotReady(stateOf(c.content), "kube-apiserver.service"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	stopped := stateOf(invocation + " 1 24 100 300\n")
	stopped.Units["kube-liveness.timer"] = host.UnitState{}
	if got := probe.NotReady(stopped, "kube-apiserver.service"); got != "" {
		t.Errorf("a state that nobody updates any more: %q", got)
	}
}

// TestPace: a component of another pace is due by that one.
func TestPace(t *testing.T) {
	fast := probe
	fast.Pace = Pace{Period: 5 * time.Second, Timeout: 3 * time.Second, Threshold: 3, Start: time.Minute}
	for state, want := range map[string]string{
		" 1 3 100 60\n": "",
		" 1 3 100 61\n": "it has not been ready for longer than 1m0s (3 liveness probes in a row failed)",
	} {
		if got := fast.NotReady(stateOf(invocation+state), "kube-apiserver.service"); got != want {
			t.Errorf("%q: %q, want %q", state, got, want)
		}
	}
	for p, want := range map[*Probe][]string{
		&fast: {
			"OnUnitActiveSec=5\n", "[Unit]\nDescription=Liveness probes\nStartLimitIntervalSec=0\n", "\ntimeout=3\n",
			"\nthreshold=3\n", "\nhold=60\n",
		},
		&probe: {"OnUnitActiveSec=10\n", "\ntimeout=15\n", "\nthreshold=8\n", "\nhold=240\n"},
	} {
		text := ""
		for _, file := range p.Job().Files {
			text += string(file.Content)
		}
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%q is not in\n%.1500s", line, text)
			}
		}
	}
}

// TestLimits: the guides say how long a hang lasts at most, and it is what the settings give.
func TestLimits(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "templates", "guides", "scaling-and-repair.md"))
	if err != nil {
		t.Fatal(err)
	}
	guide := strings.Join(strings.Fields(string(text)), " ")
	failing := time.Duration(Kubeadm.Threshold) * (Kubeadm.Period + accuracy) // it answers each probe at once
	for _, want := range []string{
		fmt.Sprintf("is killed after at most %.0f seconds", Kubeadm.Silent(ClientRule).Seconds()),
		fmt.Sprintf("an API server or a member, which is probed once more before, after at most %.0f seconds",
			Kubeadm.Silent(ServerRule).Seconds()),
		fmt.Sprintf("one that answers that it fails after at most %.0f seconds", failing.Seconds()),
	} {
		if !strings.Contains(guide, want) {
			t.Errorf("the guide does not say %q", want)
		}
	}
	// The kubelet probes again at once when a probe took longer than a period.
	kubelet := Kubeadm.Period + time.Duration(Kubeadm.Threshold)*Kubeadm.Timeout
	if own := Kubeadm.Silent(ClientRule); own > kubelet+time.Duration(Kubeadm.Threshold)*accuracy {
		t.Errorf("a silent component is killed after %s, with the kubelet after %s", own, kubelet)
	}
}

func TestReadState(t *testing.T) {
	for content, want := range map[string]State{
		invocation + " 1 24 100 300\n": {invocation, true, 24, 5 * time.Minute},
		invocation + " 0 0 0 0\n":      {invocation, false, 0, 0},
	} {
		if got, ok := readState(content); !ok || got != want {
			t.Errorf("%q is read as %+v, %t", content, got, ok)
		}
	}
	if got, ok := readState("starting\n"); ok {
		t.Errorf("what is no state is read as %+v", got)
	}
}

func FuzzReadState(f *testing.F) {
	f.Add(invocation + " 1 24 100 300\n")
	f.Fuzz(func(t *testing.T, content string) {
		if s, ok := readState(content); ok && (len(s.Invocation) != 32 || s.Failures < 0 || s.Unready < 0 ||
			s.Unready > 1e9*time.Second) {
			t.Errorf("%q is read as %+v", content, s)
		}
	})
}

// TestLacks: a probe that cannot ask is drift, also after it was set up.
func TestLacks(t *testing.T) {
	with := host.Facts{Commands: map[string]string{"curl": "/usr/bin/curl"}}
	off, sockets := probe, probe
	off.Wanted = false
	sockets.Components = []Component{{Unit: "haproxy.service", Ready: Sockets("/run/a"), Live: Sockets("/run/a")}}
	for name, c := range map[string]struct {
		probe Probe
		facts host.Facts
		want  bool
	}{
		"with curl":            {probe, with, false},
		"without curl":         {probe, host.Facts{}, true},
		"switched off":         {off, host.Facts{}, false},
		"nothing asked by URL": {sockets, host.Facts{}, false},
	} {
		if got := strings.Join(c.probe.Lacks(c.facts), " "); strings.Contains(got, "curl is not installed") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestProblems(t *testing.T) {
	facts := host.Facts{Commands: map[string]string{"curl": "/usr/bin/curl"}}
	if problems := probe.Problems(facts); len(problems) > 0 {
		t.Errorf("with curl: %v", problems)
	}
	facts.Commands = nil
	if problems := strings.Join(probe.Problems(facts), " "); !strings.Contains(problems, "curl is not installed") {
		t.Errorf("without curl: %q", problems)
	}
	facts.Files = map[string]host.FileState{probe.Job().TimerPath(): {Content: "[Timer]\n"}}
	if problems := strings.Join(probe.Problems(facts), " "); !strings.Contains(problems, "not written by the provider") {
		t.Errorf("with somebody else's timer: %q", problems)
	}
	off := probe
	off.Wanted = false
	if problems := off.Problems(host.Facts{}); len(problems) > 0 {
		t.Errorf("switched off: %v", problems)
	}
}

// TestSwitchedOff: what the probe had is removed, and its timer stopped.
func TestSwitchedOff(t *testing.T) {
	facts := host.Facts{Files: map[string]host.FileState{}, Units: map[string]host.UnitState{}}
	for _, file := range probe.Job().Files {
		facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	off := probe
	off.Wanted = false
	change, action := off.Job().Repair(facts)
	if action != timer.Off || !strings.Contains(strings.Join(change.Remove, " "), probe.Script) {
		t.Errorf("action %d, removed %v", action, change.Remove)
	}
}
