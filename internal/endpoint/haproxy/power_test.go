package haproxy

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestPowerCut creates an endpoint, registers and deregisters a replica, and deletes the
// endpoint. The machine loses its power after each command, and keeps everything.
func TestPowerCut(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	m := machines.lab.Machine("c")
	must(0, m.RebuildOnImage(t.Context()))
	cuts := lab.NewPowerCuts(m, []string{"/etc", "/opt", "/usr/sbin", "/usr/lib/systemd", packages.HAProxy().StateDir},
		[]string{"/etc/.pwd.lock", "/etc/ld.so.cache"})
	f := newFixtureAround(t, cuts.Around)
	f.spec.Hosts = map[string]*host.Host{"c": f.spec.Hosts["c"]}
	f.spec.InstallPackages = true
	f.registrar = NewRegistrars(f.machine).For(f.spec.Registration())
	f.shell("c", "sync")
	during := func(what string, run func() error) {
		f.Helper()
		started := time.Now()
		n, lost, err := cuts.During(f.ctx, run)
		f.Logf("%s: %d power cuts in %s", what, n, time.Since(started).Round(100*time.Millisecond))
		f.must(err)
		if len(lost) > 0 {
			f.Fatalf("%s: a power cut changes\n%s", what, strings.Join(lost, "\n"))
		}
	}
	during("create", func() error { _, err := Create(f.ctx, f.spec); return err })
	f.eventually("as created", time.Minute, func(o observed) bool { return len(o.Drift) == 0 && o.holder == "c" })
	during("register", func() error {
		f.shell("c", "systemctl stop kube-endpoint-haproxy") // which would report that no replica is there
		return f.registrar.Register(f.ctx, "c", f.replicaAddress("c"))
	})
	during("deregister", func() error { return f.registrar.Deregister(f.ctx, "c") })
	during("delete", func() error { return Delete(f.ctx, f.spec, DeleteOptions{}) })
	f.assertClean()
}
