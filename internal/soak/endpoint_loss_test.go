package soak

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// TestNamed: the certificate of an API server has the address of its machine, and those that all of them have.
func TestNamed(t *testing.T) {
	three := fleet{
		{Name: "cp1", Address: netip.MustParseAddr("10.0.0.11")},
		{Name: "cp2", Address: netip.MustParseAddr("10.0.0.12")},
		{Name: "cp3", Address: netip.MustParseAddr("fd00::13")},
	}
	for _, test := range []struct {
		addresses []string
		want      string
	}{
		{[]string{"10.96.0.1", "10.0.0.12", "10.0.0.100"}, "cp2"},
		{[]string{"fd00::13"}, "cp3"},
		{[]string{"10.0.0.100"}, ""},
		{[]string{"10.0.0.11", "10.0.0.12"}, ""},
	} {
		certificate := &x509.Certificate{}
		for _, a := range test.addresses {
			certificate.IPAddresses = append(certificate.IPAddresses, net.ParseIP(a))
		}
		got, err := named(certificate, three)
		if test.want == "" && err == nil || test.want != "" && (err != nil || got.Name != test.want) {
			t.Errorf("%v: %v, %v, want %q", test.addresses, got, err, test.want)
		}
	}
}

// TestLossResult: the result says why the machine was this one, and how long it was listed by a kind that lists
// machines.
func TestLossResult(t *testing.T) {
	kinds := map[string]endpointKind{}
	for _, k := range endpointKinds() {
		kinds[k.name] = k
	}
	var report load.Report
	result := func(kind string, listed time.Duration) Result {
		k := kinds[kind]
		r := k.lossResult(loss{&lab.Machine{Name: "cp2"}, listed}, report, k.outage())
		r.conclude("endpoints")
		return r
	}
	const listed = ListedFigure + " for at most 30s"
	r := result("dns", 12*time.Second)
	if r.Chosen != hasKept || !strings.Contains(r.Detail, "cp2: "+hasKept) || !slices.Contains(r.Criteria, listed) {
		t.Errorf("dns: %+v", r)
	}
	if len(r.Figures) != 1 || r.Figures[0].Worst() != 12000 || r.Figures[0].Limit != 30000 || r.Passed != r.Tried {
		t.Errorf("dns: %+v", r)
	}
	if r := result("dns", 31*time.Second); r.Verdict != NotMet || r.Passed == r.Tried ||
		!slices.ContainsFunc(r.Violated, func(v string) bool { return strings.HasPrefix(v, listed) }) {
		t.Errorf("dns, too late: %+v", r)
	}
	if r := result("dns", 0); len(r.Figures[0].Values) > 0 {
		t.Errorf("dns, cut off: %+v", r)
	}
	if r := result("kube_vip", 0); r.Chosen != hasAddress || len(r.Figures) > 0 {
		t.Errorf("kube_vip: %+v", r)
	}
	if r := result("external", 0); r.Chosen != hasKept || len(r.Figures) > 0 || ListedFor("external") > 0 {
		t.Errorf("external: %+v", r)
	}
	if got := ListedFor("bgp"); got != 2*time.Second {
		t.Errorf("bgp lists a dead machine for %s", got)
	}
}
