package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestCompareChecksClock: a machine with another time gets no certificate, because that would not be valid there. A
// change without one does not depend on the time.
func TestCompareChecksClock(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	bundle, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Spec: machine.Spec{
		Name: "cp1", Host: pool.Host(host.Target{Address: "10.0.0.1"}), Version: "3.6.13", Bundle: bundle,
	}}
	for name, c := range map[string]struct {
		offset time.Duration
		renews bool
		want   string
	}{
		"behind":                        {-6 * time.Minute, true, "the clock is 6m0s behind this computer's"},
		"ahead":                         {3 * time.Minute, true, "the clock is 3m0s ahead of this computer's"},
		"within the limit":              {time.Minute, true, ""},
		"behind, without a certificate": {-6 * time.Minute, false, ""},
	} {
		f, s := memberOn(t, s), s
		f.Facts.ClockOffset = c.offset
		if c.renews {
			s.EarlyRenewal = 365*24*time.Hour - time.Millisecond
		}
		r, err := compare(s, f, nil)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if (c.want == "") != (err == nil) || !strings.Contains(text, c.want) || err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		if err == nil && r.Issues != c.renews {
			t.Errorf("%s: issues certificates: %v", name, r.Issues)
		}
	}
}

// TestClockOfStoppedMember: a stopped member is started whatever the time of its machine is, if that issues no
// certificate. A new one gets certificates, so it is refused.
func TestClockOfStoppedMember(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	f.kill("cp1", false)
	for _, name := range []string{"cp1", "cp2"} {
		f.machine(name).skew = time.Hour
	}
	if status, err := f.clusters.Update(f.context(), specs["cp1"]); err != nil || !status.Healthy {
		t.Errorf("update of the stopped member: %+v, %v", status, err)
	}
	if _, err := f.clusters.Update(f.context(), specs["cp2"]); !problem.Untouched(err) {
		t.Errorf("update of a member whose machine has none: %v", err)
	}
}
