package haproxy

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recording is a machine of s with the record of an endpoint.
func recording(s Spec, record string) balancer {
	return balancer{
		owner: owner{s.ClusterID, s.ClusterName, s.Address},
		facts: host.Facts{Files: map[string]host.FileState{recordPath: {Content: record}}},
	}
}

// twoHosts is threeHosts without cp3, whose addition has failed.
func twoHosts() Spec {
	s := threeHosts()
	delete(s.Hosts, "cp3")
	return s
}

// TestUnlisted: a record names the hosts that were to be added. What no host of the endpoint could be is not used,
// whatever a machine says.
func TestUnlisted(t *testing.T) {
	s := twoHosts()
	named := func(address string) string {
		return strings.Replace(recordText(threeHosts()), `"10.0.0.13"`, `"`+address+`"`, 1)
	}
	other := recording(s, recordText(threeHosts()))
	other.otherEndpoint = "the machine belongs to another one"
	both := recording(s, recordText(threeHosts(), "10.0.0.20", "10.0.0.14", "10.0.0.13"))
	lost := recording(s, recordText(threeHosts()))
	lost.unreachable = host.ErrUnreachable
	for name, c := range map[string]struct {
		b    balancer
		want string
	}{
		"the addition failed":                {recording(s, recordText(threeHosts())), "10.0.0.13"},
		"it could not be reached":            {recording(s, recordText(s, "10.0.0.13")), "10.0.0.13"},
		"both":                               {both, "10.0.0.13 10.0.0.14 10.0.0.20"},
		"what is wanted":                     {recording(s, recordText(s)), ""},
		"no record":                          {balancer{}, ""},
		"another endpoint's machine":         {other, ""},
		"not observed":                       {lost, ""},
		"the virtual IP":                     {recording(s, named(s.Address)), ""},
		"this computer":                      {recording(s, named("127.0.0.1")), ""},
		"another form":                       {recording(s, named("::ffff:10.0.0.13")), ""},
		"another family":                     {recording(s, named("fd00::13")), ""},
		"no address":                         {recording(s, named("$(id)")), ""},
		"no address, as one that is leaving": {recording(s, recordText(s, "$(id)")), ""},
	} {
		if got := strings.Join(s.unlisted(c.b), " "); got != c.want {
			t.Errorf("%s: %q, wanted %q", name, got, c.want)
		}
	}
	many := map[string]string{}
	for i := range 2 * mostHosts {
		many[fmt.Sprintf("x%d", i)] = fmt.Sprintf("10.1.%d.%d", i/100, i%100+1)
	}
	if got := s.unlisted(recording(s, recordText(specOf(s.Address, many)))); len(got) != mostHosts {
		t.Errorf("%d addresses of one machine are used", len(got))
	}
}

// TestForgottenDrift: the plan shows a host that only records know, until they do not name it any more.
func TestForgottenDrift(t *testing.T) {
	s := twoHosts()
	seen := map[string]balancer{
		"cp1": recording(s, recordText(threeHosts())), "cp2": recording(s, recordText(threeHosts())),
	}
	drift := func() string { return strings.Join(status(s, seen).Drift, "\n") }
	want := "10.0.0.13 is not in haproxy.hosts, and may still have HAProxy and keepalived of the endpoint: " +
		recordPath + " names it on cp1, cp2"
	if !strings.Contains(drift(), want) {
		t.Errorf("drift lacks %q:\n%s", want, drift())
	}
	seen = map[string]balancer{"cp1": recording(s, recordText(s)), "cp2": recording(s, recordText(s))}
	if strings.Contains(drift(), "haproxy.hosts") {
		t.Errorf("drift of what is wanted:\n%s", drift())
	}
}

// TestStillHas: a machine that a record names is changed only if its own record says the same, and if it is none of the
// hosts under another address.
func TestStillHas(t *testing.T) {
	s := twoHosts()
	at := func(b balancer, addresses ...string) balancer {
		for _, address := range addresses {
			b.local = append(b.local, netip.MustParseAddr(address))
		}
		return b
	}
	other := at(recording(s, ""), "10.0.0.13")
	other.otherEndpoint = "the machine belongs to another one"
	for name, c := range map[string]struct {
		b    balancer
		want bool
	}{
		"it has the endpoint":              {at(recording(s, ""), "10.0.0.13", s.Address), true},
		"it has none":                      {at(balancer{}, "10.0.0.13"), false},
		"it has another one":               {other, false},
		"it is a host, by another address": {at(recording(s, ""), "10.9.0.12", "10.0.0.12"), false},
	} {
		if got := s.stillHas(c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestForgottenHosts: a host that does not answer may still have the endpoint. It is not observed if it leaves by the
// state, or if there is no connection.
func TestForgottenHosts(t *testing.T) {
	s := twoHosts()
	seen := map[string]balancer{"cp1": recording(s, recordText(threeHosts())), "cp2": recording(s, recordText(s))}
	pool, err := host.NewPool(host.Config{Overrides: map[string]host.Override{
		"10.0.0.13": {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	machine := func(address string) *host.Host {
		asked = append(asked, address)
		return pool.Host(host.Target{Address: address})
	}
	s.Machine = machine
	former, err := forgottenHosts(t.Context(), s, Spec{}, seen)
	if err != nil || !slices.Equal(asked, []string{"10.0.0.13"}) || former.lost["10.0.0.13"] == nil {
		t.Fatalf("asked %v: %v, %v", asked, former.lost, err)
	}
	if !slices.Equal(former.remaining(), []string{"10.0.0.13"}) {
		t.Errorf("the records go on naming %v", former.remaining())
	}
	err = requireAbandoned(t.Context(), former.Spec, former.lost, nil, changedOnOthers, othersDone)
	if err == nil || !strings.Contains(err.Error(), recordPath+" names 10.0.0.13 on cp1") {
		t.Errorf("%v", err)
	}
	former.lost["10.0.0.13"], former.Abandon = host.ErrUnreachable, host.AbandonedAt("10.0.0.13")
	if len(former.remaining()) > 0 {
		t.Errorf("the records go on naming an abandoned host: %v", former.remaining())
	}
	asked = nil
	if _, err = forgottenHosts(t.Context(), s, threeHosts(), seen); err != nil || len(asked) > 0 {
		t.Errorf("a host that leaves is asked twice: %v, %v", asked, err)
	}
	s.Machine = nil
	if former, err = forgottenHosts(t.Context(), s, Spec{}, seen); err != nil || len(former.Hosts) > 0 {
		t.Errorf("%v, %v", slices.Collect(maps.Keys(former.Hosts)), err)
	}
	s.Machine = machine
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = forgottenHosts(cancelled, s, Spec{}, seen); err == nil {
		t.Error("an observation that was cut off says nothing about a host")
	}
}
