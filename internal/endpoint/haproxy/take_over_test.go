package haproxy

import (
	"crypto/x509"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestForeign: an address is taken only from a machine that presents what an API server of the cluster
// presents to clients of that address.
func TestForeign(t *testing.T) {
	stages, other := bundles(t), bundles(t)[0]
	own := chainOf(t, stages[0]) // names 10.0.0.11
	known := func(stage int) string { return stages[stage].Known(pki.Kubernetes) }
	now := time.Now()
	for name, c := range map[string]struct {
		address     string
		authorities string
		chain       []*x509.Certificate
		failed      error
		now         time.Time
		want        string
	}{
		"an API server of the cluster":         {"10.0.0.11", known(0), own, nil, now, ""},
		"before a rotation ends":               {"10.0.0.11", known(2), own, nil, now, ""},
		"another cluster's":                    {"10.0.0.11", known(0), chainOf(t, other), nil, now, "not of this cluster's"},
		"no authority is known":                {"10.0.0.11", "", own, nil, now, "not of this cluster's authority"},
		"an API server without the address":    {"10.0.0.100", known(0), own, nil, now, "does not name the address"},
		"one that has expired":                 {"10.0.0.11", known(0), own, nil, now.Add(48 * time.Hour), "not of this"},
		"a machine that does not listen there": {"10.0.0.11", known(0), nil, errors.New("no route"), now, "no route"},
		"no certificate":                       {"10.0.0.11", known(0), nil, nil, now, "not of this cluster's authority"},
	} {
		got := foreign(c.address, c.authorities, c.chain, c.failed, c.now)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAskedAbout(t *testing.T) {
	free, foreign := asRendered(threeHosts(), "cp1"), asRendered(threeHosts(), "cp2")
	foreign.macs = map[string]string{"10.0.0.100": "02:01"}
	for name, c := range map[string]struct {
		seen map[string]balancer
		want string
	}{
		"nobody has it":         {map[string]balancer{"cp1": free}, ""},
		"another machine":       {map[string]balancer{"cp1": free, "cp2": foreign}, "cp2"},
		"one of the hosts too":  {map[string]balancer{"cp1": held(free, "10.0.0.100"), "cp2": foreign}, ""},
		"it is another address": {map[string]balancer{"cp2": {macs: map[string]string{"10.0.0.99": "02:01"}}}, ""},
	} {
		if got := askedAbout("10.0.0.100", c.seen); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPreflightTakeOver: without take_over, the refusal says what to do.
func TestPreflightTakeOver(t *testing.T) {
	s := threeHosts()
	b := asRendered(s, "cp1")
	b.macs = map[string]string{"10.0.0.100": "02:01"}
	check(t, "without", preflight(s, map[string]balancer{"cp1": b}), "set haproxy.take_over")
	for _, step := range []string{Prepare, Announce} {
		s.TakeOver = step
		check(t, step, preflight(s, map[string]balancer{"cp1": b}), "")
	}
}

// TestRenderedWhileTakingOver: keepalived waits, then announces the address each second, until take_over is
// removed.
func TestRenderedWhileTakingOver(t *testing.T) {
	s := threeHosts()
	usual := renderKeepalived(s, "cp1", "eth0")
	s.TakeOver = Announce
	want := strings.Replace(usual, "vrrp_garp_master_refresh 10\n", "vrrp_garp_master_refresh 1\n", 1)
	if got := renderKeepalived(s, "cp1", "eth0"); got != want || want == usual {
		t.Errorf("rendered as\n%s", got)
	}
	s.TakeOver = Prepare
	want = strings.Replace(usual, "vrrp_instance",
		"track_file waiting {\n    file /etc/haproxy/kube/waiting\n    weight 0\n}\n\nvrrp_instance", 1)
	want = strings.Replace(want, "        haproxy_stopped\n", "        haproxy_stopped\n        waiting\n", 1)
	if got := renderKeepalived(s, "cp1", "eth0"); got != want {
		t.Errorf("rendered as\n%s\nwant\n%s", got, want)
	}
}

// TestWaiting: an endpoint that waits is healthy without the address, and not with it.
func TestWaiting(t *testing.T) {
	s := threeHosts()
	s.TakeOver = Prepare
	without := map[string]balancer{}
	for _, name := range names(s.Hosts) {
		b := asRendered(s, name)
		b.answers = true
		without[name] = b
	}
	with := maps.Clone(without)
	with["cp2"] = held(with["cp2"], s.Address)
	if drift := status(s, without).Drift; !allHealthy(s, without) || len(drift) > 0 {
		t.Errorf("without the address: healthy %v, drift %q", allHealthy(s, without), drift)
	}
	if allHealthy(s, with) {
		t.Error("with the address, it is healthy")
	}
	check(t, "without", refuseToWait(s, without), "")
	check(t, "with", refuseToWait(s, with), "clients would lose the API")
	s.TakeOver = Announce
	check(t, "announced", refuseToWait(s, with), "")
	if drift := strings.Join(status(s, without).Drift, "; "); allHealthy(s, without) ||
		!strings.Contains(drift, waitingPath+" exists") || !strings.Contains(drift, "is held by none") {
		t.Errorf("when it does not wait any more: %q", drift)
	}
	s.TakeOver = "now"
	check(t, "another word", s.validate(), `"now" is neither prepare nor announce`)
}
