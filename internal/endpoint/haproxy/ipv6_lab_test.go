package haproxy

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestIPv6OnMachines is an endpoint whose address and hosts have IPv6, with advertisements by
// multicast, and by unicast again.
func TestIPv6OnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.spec.Address, f.spec.VRRP, f.spec.InstallPackages = labVIP6, Multicast, true
	for _, m := range machines.lab.Machines() {
		f.spec.Hosts[m.Name] = f.machine(m.Address6.String())
		f.shell(m.Name, "systemctl stop stand-in 2>/dev/null || true")
	}
	f.registrar = NewRegistrars(f.machine).For(f.spec.Registration())
	f.timed("create", func() error {
		got, err := Create(f.ctx, f.spec)
		if len(got.Drift) > 0 {
			t.Errorf("drift after create: %q", got.Drift)
		}
		return err
	})
	f.installStandIns()
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
	}))
	well := func(s observed) bool { return s.holder != "" && len(s.Drift) == 0 && len(s.backends) == 3 }
	holder := f.eventually("all well", 10*time.Second, well).holder
	imported, err := Import(f.ctx, f.spec.Hosts["b"], f.machine)
	if err != nil || imported.Address != labVIP6 || imported.VRRP != Multicast || len(imported.Hosts) != 3 {
		t.Errorf("imported %+v, %v", imported, err)
	}

	// Two holders would be drift, and only by multicast do the hosts know of each other.
	f.shell(holder, "systemctl stop "+haproxyUnit)
	now := f.eventually("moved", 10*time.Second, func(s observed) bool {
		return s.holder != "" && s.holder != holder
	}).holder
	f.shell(holder, "systemctl start "+haproxyUnit)
	f.eventually("all well", 10*time.Second, func(s observed) bool { return well(s) && s.holder == now })

	unicast := f.spec
	unicast.VRRP = ""
	f.timed("change to unicast", func() error {
		got, err := Update(f.ctx, f.spec, unicast)
		if len(got.Drift) > 0 {
			t.Errorf("drift afterwards: %q", got.Drift)
		}
		return err
	})
	f.spec = unicast
	if s := f.read(); s.holder != now || len(s.Drift) > 0 {
		t.Errorf("%s has the address instead of %s, drift %q", s.holder, now, s.Drift)
	}
	tr := startTraffic(f.url(), f.ca, 5*time.Second)
	for _, name := range names(f.spec.Hosts) {
		f.must(f.registrar.Drain(f.ctx, name))
		f.shell(name, "systemctl restart stand-in")
		f.must(f.registrar.Register(f.ctx, name, f.replicaAddress(name)))
	}
	if asked, failed := tr.end(t); failed > 0 || asked == 0 {
		t.Errorf("%d of %d requests failed", failed, asked)
	}
	for _, name := range names(f.spec.Hosts) {
		f.must(f.registrar.Deregister(f.ctx, name))
	}
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
	for _, name := range names(f.spec.Hosts) {
		f.shell(name, "systemctl stop stand-in")
	}
}
