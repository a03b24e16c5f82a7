package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The servers of these tests are of one release regardless of their unit. So a member with
// another version in its unit serves, but not with that version, which counts as a failed
// upgrade.

// counter is an outage that only counts the calls.
type counter struct {
	begins, ends atomic.Int32
	dead         atomic.Bool // it was ended with a context that has ended
}

func (c *counter) Begins(context.Context) error { c.begins.Add(1); return nil }

func (c *counter) Ended(ctx context.Context) error {
	c.ends.Add(1)
	if ctx.Err() != nil {
		c.dead.Store(true)
	}
	return ctx.Err()
}

func upgraded(specs map[string]Spec, version string) map[string]Spec {
	out := map[string]Spec{}
	for name, s := range specs {
		s.Version = version
		out[name] = s
	}
	return out
}

// impatient gives a member a second to serve.
func (f *fleet) impatient() {
	f.clusters = f.coordinator()
	f.clusters.pace.StallTimeout, f.clusters.pace.Settle = time.Second, 100*time.Millisecond
}

// wantNoDrift reads the members, which are healthy and as configured.
func (f *fleet) wantNoDrift(specs map[string]Spec) {
	f.t.Helper()
	for name, s := range specs {
		if status, err := f.clusters.Read(f.context(), s); err != nil || len(status.Drift) > 0 || !status.Healthy {
			f.t.Errorf("read of %s: %v, %v", name, status.Drift, err)
		}
	}
}

func TestRollBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	leader := leaderOf(f.calm(specs["cp1"]))
	before := map[string]string{}
	for name := range specs {
		before[name] = string(f.machine(name).files[layout.UnitPath].Content)
	}
	f.impatient()
	f.clusters.pace.StallTimeout = 8 * time.Second
	other := upgraded(specs, "3.6.15")
	outages := map[string]*counter{}
	for name, s := range other {
		outages[name] = &counter{}
		s.Outage = outages[name]
		other[name] = s
	}
	errs := together(t, other, func(s Spec) error { _, err := f.clusters.Update(f.context(), s); return err }, "cp1",
		"cp2", "cp3")
	failed := ""
	for name, err := range errs {
		var p *problem.Problem
		switch {
		case !errors.As(err, &p):
			t.Fatalf("%s: %v", name, err)
		case p.Summary == "etcd not upgraded, and rolled back":
			failed = name
			if !strings.Contains(p.Unchanged, name+" serves with etcd 3.6.16 again") ||
				!strings.Contains(p.Next, "-etcd-3.6.16-to-3.6.15.db on cp") || !strings.Contains(p.Detail, "the unit's log") {
				t.Errorf("%s: %v", name, err)
			}
			if o := outages[name]; o.begins.Load() != 1 || o.ends.Load() != 1 || f.machine(name).starts != 3 {
				t.Errorf("%s: outage began %d times and ended %d times; %d starts", name, o.begins.Load(), o.ends.Load(),
					f.machine(name).starts)
			}
		case problem.Untouched(err) && strings.Contains(p.Cause, "did not start with etcd 3.6.15 in this run"):
			if o := outages[name]; o.begins.Load() != 0 || f.machine(name).starts != 1 {
				t.Errorf("%s was touched: outage began %d times, %d starts", name, o.begins.Load(), f.machine(name).starts)
			}
		default:
			t.Errorf("%s: %v", name, err)
		}
		m := f.machine(name)
		if _, left := m.files[layout.RollbackUnitPath]; left || string(m.files[layout.UnitPath].Content) != before[name] {
			t.Errorf("%s does not have its unit from before, or %s is left", name, layout.RollbackUnitPath)
		}
		if len(m.installed) != 1 || m.installed[0] != "3.6.15" {
			t.Errorf("%s got the programs of %v before the first member was touched", name, m.installed)
		}
	}
	if failed == "" || failed == leader {
		t.Errorf("%q was tried first; the leader is %q", failed, leader)
	}
	f.wantNoDrift(specs)
}

// oneMember returns a fleet with one member, whose upgrade fails soon.
func oneMember(t *testing.T) (*fleet, map[string]Spec) {
	t.Helper()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.calm(specs["cp1"])
	f.impatient()
	return f, specs
}

// TestServesOtherVersion: a member that serves, but with another version than its definition names, as with the digest
// of another image, is not stopped for a rollback to what nobody knows, and the error names both versions.
func TestServesOtherVersion(t *testing.T) {
	t.Parallel()
	f, specs := oneMember(t)
	f.clusters.pace.StallTimeout = 3 * time.Second
	m := f.machine("cp1")
	unit := m.files[layout.UnitPath]
	unit.Content = []byte(strings.ReplaceAll(string(unit.Content), "3.6.16", "3.6.15"))
	m.files[layout.UnitPath] = unit
	_, err := f.clusters.Update(f.context(), upgraded(specs, "3.6.15")["cp1"])
	var p *problem.Problem
	if !errors.As(err, &p) || p.Summary != "etcd not upgraded" || p.Cause != "etcd 3.6.16 serves, wanted 3.6.15" ||
		!strings.HasPrefix(p.Unchanged, "cp1 serves with etcd 3.6.16") || strings.Contains(err.Error(), "does not serve") {
		t.Errorf("%v", err)
	}
	if m.starts != 2 {
		t.Errorf("it was started %d times, want once after the creation", m.starts)
	}
}

// TestOtherVersionError: the error of a pod names its image.
func TestOtherVersionError(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	s := Spec{Spec: machine.Spec{
		Name: "cp1", Host: pool.Host(host.Target{Address: "10.0.0.11"}), Version: "3.6.16", Runtime: machine.StaticPod,
		Image: "registry.example.com/etcd@sha256:0123",
	}}
	cause := fmt.Errorf("wait: %w", otherVersion(s, "3.6.15", "3.6.16"))
	var p *problem.Problem
	if err := (&cluster{}).notServing(t.Context(), s, cause); !errors.As(err, &p) || p.Attribute != "image" ||
		p.Cause != "the image registry.example.com/etcd@sha256:0123 contains etcd 3.6.15, wanted 3.6.16" ||
		p.Next != "correct image or version, and apply again" || strings.Contains(err.Error(), "does not serve") {
		t.Errorf("%v", err)
	}
}

// TestRollBackTakesItsOwnTime verifies the rollback if the caller's deadline has passed
// when it is clear that the member does not serve.
func TestRollBackTakesItsOwnTime(t *testing.T) {
	t.Parallel()
	f, specs := oneMember(t)
	f.clusters.pace.StallTimeout = 10 * time.Second
	s, o := upgraded(specs, "3.6.15")["cp1"], &counter{}
	s.Outage = o
	ctx, cancel := context.WithTimeout(f.context(), 4*time.Second)
	defer cancel()
	_, err := f.clusters.Update(ctx, s)
	if err == nil || ctx.Err() == nil || !strings.Contains(err.Error(), "rolled back") ||
		!strings.Contains(err.Error(), "serves with etcd 3.6.16 again") || o.ends.Load() != 1 {
		t.Fatalf("%v (%v), the outage ended %d times", err, ctx.Err(), o.ends.Load())
	}
	if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "outage") {
		t.Errorf("the end of the outage had no time: %v", err)
	}
}

// TestNeitherComesUp verifies that a failed rollback is reported together with the failed
// upgrade, and so is a member whose previous unit is unknown.
func TestNeitherComesUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.impatient()
	f.clusters.pace.StallTimeout = 8 * time.Second
	s, m := upgraded(specs, "3.6.15")["cp1"], f.machine("cp1")
	m.breaks = "ExecStart="
	_, err := f.clusters.Update(f.context(), s)
	for _, want := range []string{
		"etcd not upgraded, and not rolled back",
		"etcd 3.6.15 was started, but it does not serve: it exited", "the rollback to 3.6.16 failed too: it does not serve",
		"keep quorum", "-replace", "with etcd 3.6.15", "with etcd 3.6.16",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
	if status, err := f.clusters.Read(f.context(), s); err != nil || len(status.Drift) == 0 {
		t.Errorf("read: %v, %v", status.Drift, err)
	}
	// The cause is fixed, and the upgrade abandoned.
	m.breaks = ""
	f.impatient()
	f.clusters.pace.StallTimeout = 15 * time.Second
	status, err := f.clusters.Update(f.context(), specs["cp1"])
	if err != nil || len(status.Drift) > 0 || !status.Healthy {
		t.Fatalf("given up: %v, %v", status.Drift, err)
	}
	if _, left := m.files[layout.RollbackUnitPath]; left {
		t.Errorf("%s is left over", layout.RollbackUnitPath)
	}
}

// TestUpgradeNeedsAll verifies that an upgrade is refused next to a dead member, unlike a
// restart with the same version, and that it cannot be prepared without a quorum.
func TestUpgradeNeedsAll(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4", "cp5")
	f.create(specs, "cp1", "cp2", "cp3", "cp4", "cp5")
	f.calm(specs["cp1"])
	f.impatient()
	other := upgraded(specs, "3.6.15")
	f.kill("cp5", false)
	refused := func(what string, words ...string) {
		t.Helper()
		_, err := f.clusters.Update(f.context(), other["cp1"])
		if err == nil || !problem.Untouched(err) || f.machine("cp1").starts != 1 || len(f.machine("cp2").installed) != 0 {
			t.Fatalf("%s: %v", what, err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in %v", what, word, err)
			}
		}
	}
	refused("a dead member", "cp5", "set version back to 3.6.16")
	f.machine("cp5").lost = true
	f.impatient()
	refused("a dead machine", "cp5")
	f.kill("cp4", false)
	f.kill("cp3", false)
	f.impatient()
	refused("no quorum", client.ErrNoAnswer.Error())
}

// killed is a machine that does nothing from its n-th change on.
type killed struct {
	machine.Machine
	after bool
	left  *atomic.Int32
}

func (k killed) Change(ctx context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	left := k.left.Add(-1)
	if left < 0 || left == 0 && !k.after {
		return host.Applied{}, fmt.Errorf("killed: %w", host.ErrUnreachable)
	}
	applied, err := k.Machine.Change(ctx, c, a)
	if left == 0 {
		return host.Applied{}, fmt.Errorf("killed: %w", host.ErrUnreachable)
	}
	return applied, err
}

func (k killed) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	if k.left.Load() <= 0 {
		return host.Facts{}, fmt.Errorf("killed: %w", host.ErrUnreachable)
	}
	return k.Machine.Observe(ctx, q)
}

// TestCutOffRollBack verifies that the next apply converges after an interruption before
// or after each change of an upgrade that is rolled back.
func TestCutOffRollBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	other := upgraded(specs, "3.6.15")
	for _, after := range []bool{false, true} {
		cuts := 0
		for n := int32(1); ; n++ {
			f.calm(specs["cp1"])
			f.impatient()
			left := &atomic.Int32{}
			left.Store(n)
			whole := f.clusters.machine
			f.clusters.machine = func(h *host.Host) machine.Machine { return killed{whole(h), after, left} }
			if _, err := f.clusters.Update(f.context(), other["cp1"]); err == nil {
				t.Fatal("a release that is not there runs")
			}
			f.impatient()
			f.clusters.pace.StallTimeout = 15 * time.Second
			status, err := f.clusters.Update(f.context(), specs["cp1"])
			if err != nil || len(status.Drift) > 0 || !status.Healthy {
				t.Fatalf("cut off at change %d (after: %v): left %v, %v", n, after, status.Drift, err)
			}
			if _, unfinished := f.machine("cp1").files[layout.RollbackUnitPath]; unfinished {
				t.Fatalf("cut off at change %d (after: %v): %s is left over", n, after, layout.RollbackUnitPath)
			}
			if left.Load() > 0 {
				break
			}
			cuts++
		}
		if cuts < 5 { // snapshot, change, stop, change back, end
			t.Errorf("only %d cuts", cuts)
		}
	}
}

// TestCutOffAfterUpgrade: an upgrade from 3.5 that was cut off when the last member was started is completed with a
// snapshot of the log, also by an apply that is cut off again. No other one is.
func TestCutOffAfterUpgrade(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.withArgs(map[string]string{"snapshot-count": "100"}, "cp1")
	f.create(specs, "cp1")
	s := specs["cp1"]
	for _, c := range []struct {
		before string
		want   bool
	}{{"3.5.35", true}, {"3.6.15", false}, {"3.7.0", false}} {
		f.machine("cp1").files[layout.RollbackUnitPath] = host.File{
			Path: layout.RollbackUnitPath, Content: []byte(unitOf(c.before)), Mode: 0o644,
		}
		for _, cut := range []bool{true, false} {
			entries := f.calm(s).Members[0].Index
			f.impatient()
			left := &atomic.Int32{}
			left.Store(1)
			if whole := f.clusters.machine; cut {
				f.clusters.machine = func(h *host.Host) machine.Machine { return killed{whole(h), false, left} }
			}
			_, err := f.clusters.Update(f.context(), s)
			_, unfinished := f.machine("cp1").files[layout.RollbackUnitPath]
			if (err != nil) != cut || unfinished != cut {
				t.Fatalf("from %s, cut off %v: unfinished %v, %v", c.before, cut, unfinished, err)
			}
			if more := f.calm(s).Members[0].Index - entries; more > 100 != c.want {
				t.Errorf("from %s, cut off %v: %d more entries", c.before, cut, more)
			}
		}
	}
}

// TestReturnsFrom: a member that serves with a version that nobody wanted is stopped only if it is known that what it
// ran before can start.
func TestReturnsFrom(t *testing.T) {
	step := versionStep{From: "3.6.15", To: "3.6.16", Unit: "a unit"}
	for name, c := range map[string]struct {
		has, agreed string
		others      []membership.Member
		want        bool
	}{
		"the same minor":                  {has: "3.6.14", want: true},
		"an older minor":                  {has: "3.5.35", want: true},
		"a newer minor, alone":            {has: "3.7.0"},
		"a newer minor, others are older": {has: "3.7.0", others: []membership.Member{{Version: "3.6.15"}}, want: true},
		"a newer minor, not agreed":       {has: "3.7.0", agreed: "3.6", want: true},
		"a newer minor, agreed":           {has: "3.7.0", agreed: "3.7"},
		"no version":                      {has: "latest"},
	} {
		if got := returnsFrom(step, c.has, c.agreed, c.others); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
