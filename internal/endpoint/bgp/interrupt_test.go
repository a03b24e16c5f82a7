package bgp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// during runs do again and again: each time it is cut off at the next remote command, and the last
// time at none.
func (f *fixture) during(c *lab.Interruptions, what string, do func(ctx context.Context) error) {
	f.Helper()
	cuts, err := c.During(f.Ctx, do)
	f.Must(err)
	f.Logf("%s: cut off at %d commands: %s", what, len(cuts), strings.Join(cuts, ", "))
}

// TestRegistrationInterrupted: whatever is cut off at any remote command is completed when it is repeated.
func TestRegistrationInterrupted(t *testing.T) {
	testrun.Long(t)
	c := &lab.Interruptions{}
	f := newFixtureAround(t, c.Around)
	f.Router = agenttest.StartRouter(t, labRouter, labRouter, dynamic(agenttest.CalmBFD))
	f.spec.Targets = map[string]string{"b": f.spec.Targets["b"]}
	f.InstallStandIns()
	registered := func() {
		f.Helper()
		differences, err := f.registrar().Registered(f.Ctx, "b", f.At("b"))
		f.Must(err)
		if len(differences) > 0 {
			f.Errorf("differences are %q", differences)
		}
		f.Within(10*time.Second, "b")
	}
	f.during(c, "register", func(ctx context.Context) error { return f.registrar().Register(ctx, "b", f.At("b")) })
	registered()
	// From nothing, each time.
	for at := 1; at <= 8; at++ {
		f.Must(f.registrar().Deregister(f.Ctx, "b"))
		_, _ = c.At(f.Ctx, at, func(ctx context.Context) error { return f.registrar().Register(ctx, "b", f.At("b")) })
		f.Must(f.registrar().Register(f.Ctx, "b", f.At("b")))
		registered()
	}
	f.during(c, "drain", func(ctx context.Context) error { return f.registrar().DrainForDelete(ctx, "b", true) })
	f.Within(10 * time.Second)
	f.Must(f.registrar().Undrain(f.Ctx, "b"))
	f.Within(10*time.Second, "b")
	f.during(c, "deregister", func(ctx context.Context) error { return f.registrar().Deregister(ctx, "b") })
	f.Within(10 * time.Second)
	f.assertClean()
}

// TestRegistrationPowerCut registers and deregisters a replica. The machine loses its power after each command,
// and keeps everything.
func TestRegistrationPowerCut(t *testing.T) {
	testrun.Long(t)
	if machines.Lab == nil {
		testrun.Missing(t, "no lab: "+machines.Missing)
	}
	m := machines.Machine("c")
	if err := m.RebuildOnImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	cuts := lab.NewPowerCuts(m, []string{"/etc", "/opt", "/usr/sbin", "/usr/lib/systemd", packages.BGP().StateDir},
		[]string{"/etc/.pwd.lock", "/etc/ld.so.cache"})
	f := newFixtureAround(t, cuts.Around)
	f.Router = agenttest.StartRouter(t, labRouter, labRouter, dynamic(agenttest.CalmBFD))
	f.spec.Targets = map[string]string{"c": f.spec.Targets["c"]}
	f.InstallStandIns()
	f.Shell("c", "systemctl enable -q stand-in; sync")
	during := func(what string, run func() error) {
		f.Helper()
		n, lost, err := cuts.During(f.Ctx, run)
		f.Logf("%s: %d power cuts", what, n)
		f.Must(err)
		if len(lost) > 0 {
			f.Fatalf("%s: a power cut changes\n%s", what, strings.Join(lost, "\n"))
		}
	}
	during("register", func() error { return f.registrar().Register(f.Ctx, "c", f.At("c")) })
	f.Within(30*time.Second, "c")
	during("drain", func() error { return f.registrar().DrainForDelete(f.Ctx, "c", true) })
	f.Within(10 * time.Second)
	during("deregister", func() error { return f.registrar().Deregister(f.Ctx, "c") })
	f.assertClean()
}
