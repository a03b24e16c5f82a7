package haproxy

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
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
	foreign.neighbors.By = map[string]string{"10.0.0.100": "02:01"}
	taken := free
	taken.neighbors.Own = []string{"02:01"}
	another := neighbors.Answers{By: map[string]string{"10.0.0.99": "02:01"}}
	for name, c := range map[string]struct {
		seen map[string]balancer
		want string
	}{
		"nobody has it":          {map[string]balancer{"cp1": free}, ""},
		"another machine":        {map[string]balancer{"cp1": free, "cp2": foreign}, "cp2"},
		"one of the hosts too":   {map[string]balancer{"cp1": held(free, "10.0.0.100"), "cp2": foreign}, ""},
		"one of the hosts since": {map[string]balancer{"cp1": taken, "cp2": foreign}, ""},
		"it is another address":  {map[string]balancer{"cp2": {neighbors: another}}, ""},
	} {
		if got := askedAbout("10.0.0.100", c.seen); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPreflightHandOver: without hand_over, the refusal says what to do.
func TestPreflightHandOver(t *testing.T) {
	s := threeHosts()
	b := asRendered(s, "cp1")
	b.neighbors.By = map[string]string{"10.0.0.100": "02:01"}
	check(t, "without", preflight(s, map[string]balancer{"cp1": b}), "set haproxy.hand_over")
	for _, step := range []string{Prepare, Take, Release} {
		s.HandOver = step
		check(t, step, preflight(s, map[string]balancer{"cp1": b}), "")
	}
}

// TestElsewhere: an address that two machines have is refused, once every host has been asked.
func TestElsewhere(t *testing.T) {
	s := threeHosts()
	vip := s.Address
	all := func(sees string) map[string]balancer {
		seen := map[string]balancer{}
		for i, name := range names(s.Hosts) {
			b := asRendered(s, name)
			b.neighbors.Own = []string{"00:00", fmt.Sprintf("02:0%d", i)}
			seen[name] = b
		}
		seen["cp1"] = held(seen["cp1"], vip)
		asked := seen["cp2"]
		asked.neighbors.By = map[string]string{vip: sees}
		seen["cp2"] = asked
		return seen
	}
	without := all("02:0f")
	delete(without, "cp3")
	free := all("02:0f")
	free["cp1"] = asRendered(s, "cp1")
	for name, c := range map[string]struct {
		seen map[string]balancer
		want string
	}{
		"nobody answers":      {all(""), ""},
		"the holder answers":  {all("02:00"), ""},
		"another host":        {all("02:02"), ""},
		"somebody else":       {all("02:0f"), "is on two machines: cp1 has it, and cp2 sees it at hardware address 02:0f"},
		"not all were asked":  {without, ""},
		"none of them has it": {free, ""},
	} {
		got := strings.Join(elsewhere(s, vip, c.seen), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	check(t, "preflight", preflight(s, all("02:0f")), "on two machines")
	s.HandOver = Take
	check(t, "while it moves", preflight(s, all("02:0f")), "")
}

// TestRenderedWhileMoving: keepalived tracks the file by which it waits, and announces the address each second,
// in every step alike, so that a step reloads nothing.
func TestRenderedWhileMoving(t *testing.T) {
	s := threeHosts()
	usual := renderKeepalived(s, "cp1", "eth0")
	want := strings.Replace(usual, "vrrp_garp_master_refresh 10\n", "vrrp_garp_master_refresh 1\n", 1)
	want = strings.Replace(want, "vrrp_instance",
		"track_file waiting {\n    file /etc/haproxy/kube/waiting\n    weight 0\n}\n\nvrrp_instance", 1)
	want = strings.Replace(want, "        haproxy_stopped\n", "        haproxy_stopped\n        waiting\n", 1)
	for _, step := range []string{Prepare, Take, Release} {
		s.HandOver = step
		if got := renderKeepalived(s, "cp1", "eth0"); got != want || want == usual {
			t.Errorf("%s: rendered as\n%s\nwant\n%s", step, got, want)
		}
	}
}

// TestRenderedWatcher: only an endpoint that takes its address has a watcher, which knows the other hosts.
func TestRenderedWatcher(t *testing.T) {
	s := threeHosts()
	for _, step := range []string{"", Prepare, Release} {
		s.HandOver = step
		if got := s.watcher("cp1"); len(got) > 0 {
			t.Errorf("%q: %v", step, got)
		}
	}
	s.HandOver, s.Address6 = Take, "fd00::100"
	want := `ExecStart=/bin/bash /opt/kube/endpoint/watch 10.0.0.100,fd00::100 "10.0.0.12,10.0.0.13"` + "\n"
	if got := renderWatchUnit(s, "cp1"); !strings.Contains(got, want) || !strings.Contains(got, "Before="+keepalivedUnit) {
		t.Errorf("rendered as\n%s", got)
	}
}

// TestWaiting: an endpoint that waits is healthy without the address, and not with it.
func TestWaiting(t *testing.T) {
	s := threeHosts()
	s.HandOver = Prepare
	without := map[string]balancer{}
	for _, name := range names(s.Hosts) {
		b := asRendered(s, name)
		b.answers = true
		without[name] = b
	}
	with := maps.Clone(without)
	with["cp2"] = held(with["cp2"], s.Address)
	for _, s.HandOver = range []string{Prepare, Release} {
		if drift := status(s, without).Drift; !allHealthy(s, without) || len(drift) > 0 {
			t.Errorf("%s, without the address: healthy %v, drift %q", s.HandOver, allHealthy(s, without), drift)
		}
		if allHealthy(s, with) {
			t.Errorf("%s: with the address, it is healthy", s.HandOver)
		}
	}
	s.HandOver = Take
	if !allHealthy(s, without) || !allHealthy(s, with) {
		t.Error("it takes the address, and is not healthy with and without it")
	}
	if drift := strings.Join(status(s, without).Drift, "; "); strings.Contains(drift, "is held by none") ||
		!strings.Contains(drift, watchUnit+" is ") {
		t.Errorf("it takes the address, and has no watcher: %q", drift)
	}
	for step, want := range map[string]string{Prepare: "clients would lose the API", Release: "", Take: "", "": ""} {
		s.HandOver = step
		check(t, step+" without", refuseToWait(s, without), "")
		check(t, step+" with", refuseToWait(s, with), want)
	}
	s.HandOver = ""
	if drift := strings.Join(status(s, without).Drift, "; "); allHealthy(s, without) ||
		!strings.Contains(drift, waitingPath+" exists") || !strings.Contains(drift, "is held by none") {
		t.Errorf("when it does not wait any more: %q", drift)
	}
	s.HandOver = "now"
	check(t, "another word", s.validate(), `"now" is none of prepare, take and release`)
}

// TestCreateDoesNotWait: a Create that finds the endpoint with its address changes nothing if no host is to have it any
// more, nor if services of the hosts could have it besides.
func TestCreateDoesNotWait(t *testing.T) {
	s := threeHosts()
	in := func(step string) (Spec, map[string]balancer) {
		s, seen := s, map[string]balancer{}
		s.HandOver = step
		for _, name := range names(s.Hosts) {
			seen[name] = asRendered(threeHosts(), name)
		}
		seen["cp2"] = held(seen["cp2"], s.Address)
		return s, seen
	}
	waiting, seen := in(Prepare)
	_, err := createOn(t.Context(), waiting, seen)
	check(t, "it is to wait", err, "clients would lose the API")
	if err != nil && !problem.Untouched(err) {
		t.Errorf("the refusal does not say that nothing was changed: %v", err)
	}
	usual, seen := in("")
	seen["cp2"].facts.Files[formerKeepalivedPath] = host.FileState{Content: formerConfig}
	seen["cp2"].facts.Units[formerKeepalivedUnit] = host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	_, err = createOn(t.Context(), usual, seen)
	check(t, "former services", err, "the former services could still have the address")
	if usual.before(map[string]balancer{"cp1": hostWith(formerConfig, s.Address)}).Inherit {
		t.Error("without an endpoint, nothing is taken from services that have the address")
	}
}

// TestChangeLeavesWaiting: the script writes the file by which a keepalived waits that runs already, because it may
// have the address by now. One that does not run does not start without the file, whenever the machine boots.
func TestChangeLeavesWaiting(t *testing.T) {
	s := threeHosts()
	running := asRendered(s, "cp1")
	for _, s.HandOver = range []string{Prepare, Release} {
		for what, b := range map[string]balancer{"runs": running, "is new": {device: "eth0"}} {
			got := slices.ContainsFunc(change(s, "cp1", b, "").Files, func(f host.File) bool { return f.Path == waitingPath })
			if got != (what == "is new") {
				t.Errorf("%s, keepalived %s: the file is written before the script: %v", s.HandOver, what, got)
			}
		}
	}
}

// TestMovingWithAnUnreachableHost: an address is given up only if no unreachable host may keep it. All other
// steps are possible, so that it can be taken back.
func TestMovingWithAnUnreachableHost(t *testing.T) {
	seen := map[string]balancer{"cp1": {}, "cp2": {unreachable: host.ErrUnreachable}, "cp3": {}}
	in := func(step string) Spec {
		s := threeHosts()
		s.HandOver = step
		return s
	}
	for _, before := range []string{"", Prepare, Take, Release} {
		for _, after := range []string{"", Prepare, Take, Release} {
			want := ""
			if (before == "" || before == Take) && (after == Prepare || after == Release) {
				want = "Endpoint 10.0.0.100 not changed"
			}
			check(t, before+" to "+after, requireAllHosts(in(before), in(after), seen), want)
		}
	}
}
