package haproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/liveness"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// hangLimit is what the guides say about the time that a HAProxy or keepalived hangs at most.
const hangLimit = 30 * time.Second

const invocation = "0123456789abcdef0123456789abcdef"

// TestLiveness: a program that hangs is drift in words, and the one process that hung is restarted. What probes
// observe is no configuration.
func TestLiveness(t *testing.T) {
	for name, c := range map[string]struct{ state, drift, hung string }{
		"ready":       {invocation + " 1 0 0 0\n", "", ""},
		"for a while": {invocation + " 1 2 100 60\n", "", ""},
		"for too long": {
			invocation + " 1 9 100 61\n",
			haproxyUnit + ": it has not been ready for longer than 1m0s (9 liveness probes in a row failed)",
			haproxyUnit + "=" + invocation,
		},
		"a process that is gone": {strings.Repeat("f", 32) + " 1 9 100 61\n", "", ""},
		"a command":              {"$(reboot) 1 9 100 61\n", "", ""},
	} {
		s := threeHosts()
		s.LivenessProbe = true
		b := balancer{facts: host.Facts{
			Files: map[string]host.FileState{s.liveness("eth0").StatePath(haproxyUnit): {Content: c.state, SHA256: c.state}},
			Units: map[string]host.UnitState{
				haproxyUnit:                      {Load: "loaded", Active: "active", Enabled: "enabled", Invocation: invocation},
				keepalivedUnit:                   {Load: "loaded", Active: "active", Enabled: "enabled", Invocation: invocation},
				s.liveness("eth0").Job().Timer(): {Active: "active"},
			},
		}}
		if got := strings.Join(unitDrift(s, b), "\n"); got != c.drift {
			t.Errorf("%s: drift %q, want %q", name, got, c.drift)
		}
		if got := change(s, "cp1", b, "").Vars["hung"]; got != c.hung {
			t.Errorf("%s: hung %q, want %q", name, got, c.hung)
		}
		if digest(map[string]balancer{"cp1": b}) != digest(map[string]balancer{"cp1": {}}) {
			t.Errorf("%s: the digest of the configuration contains what the probe says", name)
		}
	}
}

// TestLimits: the guides say how long a balancer hangs at most.
func TestLimits(t *testing.T) {
	limit := pace.Silent(liveness.AloneRule)
	if limit > hangLimit {
		t.Errorf("what hangs is killed after %s, which is more than half a minute", limit)
	}
	for file, want := range map[string]string{
		"templates/guides/scaling-and-repair.md": fmt.Sprintf("after three failures, at most %.0f seconds", limit.Seconds()),
		"templates/guides/troubleshooting.md":    "is killed within half a minute",
		"CHANGELOG.md":                           "a HAProxy or keepalived that hangs is restarted within half a minute",
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

// TestProbed: the probe is on a host, and in an import, if it is wanted.
func TestProbed(t *testing.T) {
	s := threeHosts()
	for _, wanted := range []bool{true, false} {
		s.LivenessProbe = wanted
		files := map[string]host.FileState{}
		for _, file := range change(s, "cp1", balancer{device: "eth0"}, "").Files {
			files[file.Path] = host.FileState{Content: string(file.Content)}
		}
		files[recordPath] = host.FileState{Content: recordText(s)}
		script := files[noProbe.Script].Content
		for _, want := range []string{"haproxy:" + adminSocket, "awake:" + vrrpPID, ",/sys/class/net/eth0/operstate "} {
			if strings.Contains(script, want) != wanted {
				t.Errorf("wanted %t: %s in the script is wrong:\n%.1000s", wanted, want, script)
			}
		}
		own, err := rendered(s.Hosts["cp1"], host.Facts{Files: files})
		if err != nil || own.imported().LivenessProbe != wanted {
			t.Errorf("wanted %t: imported %+v, %v", wanted, own.imported(), err)
		}
	}
	s.LivenessProbe = true
	path := noProbe.Job().TimerPath()
	others := balancer{facts: host.Facts{Files: map[string]host.FileState{path: {Content: "[Timer]\n"}}}}
	if got := s.liveness("eth0").Problems(others.facts); !slices.ContainsFunc(got, func(p string) bool {
		return strings.Contains(p, path+" exists and was not written by the provider")
	}) {
		t.Errorf("with somebody else's timer: %q", got)
	}
	if got := s.liveness("eth0").Problems(host.Facts{}); len(got) > 0 {
		t.Errorf("without curl, which nothing here needs: %q", got)
	}
	off := threeHosts()
	gone := change(off, "cp1", balancer{facts: host.Facts{Files: map[string]host.FileState{
		path: {Content: systemd.Managed + "\n"},
	}}}, "")
	if !slices.Contains(gone.Remove, path) ||
		!strings.Contains(string(gone.Script), "systemctl stop kube-endpoint-liveness") {
		t.Errorf("switched off: removed %q by\n%s", gone.Remove, gone.Script)
	}
}
