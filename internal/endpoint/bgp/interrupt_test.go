package bgp

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// cutter cancels a context after a remote command has begun.
type cutter struct {
	mu     sync.Mutex
	at     int // the ordinal of the command; 0 is none
	seen   int
	cut    string // the summary of the command that was cut
	cancel context.CancelFunc
}

func (c *cutter) around(_, summary string) (running, ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	if c.seen != c.at {
		return func() {}, func() {}
	}
	c.cut = summary
	return func() { time.AfterFunc(20*time.Millisecond, c.cancel) }, func() { c.cancel() }
}

// during runs do again and again: each time it is cut off at the next remote command, and the last
// time at none.
func (c *cutter) during(f *fixture, what string, do func(ctx context.Context) error) {
	f.Helper()
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(f.Ctx)
		c.mu.Lock()
		c.at, c.seen, c.cut, c.cancel = at, 0, "", cancel
		c.mu.Unlock()
		err := do(ctx)
		cancel()
		if c.cut == "" {
			f.Must(err)
			f.Logf("%s: cut off at %d commands", what, at-1)
			break
		}
		f.Logf("%s cut off at %s: %v", what, c.cut, err != nil)
	}
	c.mu.Lock()
	c.at = 0
	c.mu.Unlock()
}

// TestRegistrationInterrupted: whatever is cut off at any remote command is completed when it is repeated.
func TestRegistrationInterrupted(t *testing.T) {
	testrun.Long(t)
	c := &cutter{}
	f := newFixtureAround(t, c.around)
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
	c.during(f, "register", func(ctx context.Context) error { return f.registrar().Register(ctx, "b", f.At("b")) })
	registered()
	// From nothing, each time.
	for at := 1; at <= 8; at++ {
		f.Must(f.registrar().Deregister(f.Ctx, "b"))
		ctx, cancel := context.WithCancel(f.Ctx)
		c.mu.Lock()
		c.at, c.seen, c.cancel = at, 0, cancel
		c.mu.Unlock()
		_ = f.registrar().Register(ctx, "b", f.At("b"))
		cancel()
		f.Must(f.registrar().Register(f.Ctx, "b", f.At("b")))
		registered()
	}
	c.during(f, "drain", func(ctx context.Context) error { return f.registrar().DrainForDelete(ctx, "b", true) })
	f.Within(10 * time.Second)
	f.Must(f.registrar().Undrain(f.Ctx, "b"))
	f.Within(10*time.Second, "b")
	c.during(f, "deregister", func(ctx context.Context) error { return f.registrar().Deregister(ctx, "b") })
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
