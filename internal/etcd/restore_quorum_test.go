package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestMayGetQuorum: only certainty ends the wait early.
func TestMayGetQuorum(t *testing.T) {
	const least = 10 * time.Second
	runs := func(name string, since time.Duration) machine.Observed {
		m := established(name)
		m.Unit.Active, m.Unit.Since = "active", time.Now().Add(-since)
		return m
	}
	of := func(names ...string) map[string]membership.View {
		lists := map[string]membership.View{}
		for _, name := range names {
			lists[blank(name).Address] = listing("cp1", "cp2", "cp3")
		}
		return lists
	}
	ahead := runs("cp3", time.Hour)
	ahead.Unit.Since = ahead.Unit.Since.Add(time.Hour) // by its clock, which is an hour ahead
	ahead.Facts.ClockOffset = time.Hour
	learner := listing("cp1", "cp2", "cp3")
	learner.Members[0].Learner = true
	ghost := blank("cp2") // its data was removed below a process that still runs
	ghost.Unit.Active = "active"
	stopped := established("cp2")
	stopped.Unit.Active = "inactive"
	survivor, again := runs("cp3", time.Hour), runs("cp3", time.Hour)
	again.Unit.Active = "activating"
	unknown := runs("cp3", time.Hour)
	unknown.Unit.Since = time.Time{}
	empty := []machine.Observed{blank("cp1"), blank("cp2")}

	for name, c := range map[string]struct {
		machines []machine.Observed
		lists    map[string]membership.View
		want     string // in the reason to wait; "": no quorum is possible
	}{
		"one of three":                   {append(empty, survivor), of("cp3"), ""},
		"one of three, by a clock ahead": {append(empty, ahead), of("cp3"), ""},
		"two of three": {
			[]machine.Observed{blank("cp1"), runs("cp2", time.Hour), survivor}, of("cp2", "cp3"), "2 may run",
		},
		"nobody":                          {append(empty, blank("cp3")), nil, ""},
		"it has just started":             {append(empty, runs("cp3", 9*time.Second)), of("cp3"), "has just started"},
		"it starts again":                 {append(empty, again), of("cp3"), "has just started"},
		"nobody knows since when it runs": {append(empty, unknown), of("cp3"), "has just started"},
		"it does not answer":              {append(empty, survivor), nil, "does not say"},
		"it knows nobody": {
			append(empty, survivor), map[string]membership.View{survivor.Address: {}}, "0 voters",
		},
		"a voter on an unknown machine": {[]machine.Observed{blank("cp1"), survivor}, of("cp3"), "2 may run"},
		"a machine does not answer": {
			[]machine.Observed{blank("cp1"), away("cp2", errors.New("no route")), survivor}, of("cp3"), "was not reached",
		},
		"a process without data": {[]machine.Observed{blank("cp1"), ghost, survivor}, of("cp3"), "does not say"},
		"a stopped one":          {[]machine.Observed{blank("cp1"), stopped, survivor}, of("cp3"), "does not say"},
		"a learner was lost": {
			append(empty, survivor), map[string]membership.View{survivor.Address: learner}, "",
		},
		"one of two, and a learner that was lost": {
			[]machine.Observed{blank("cp1"), runs("cp2", time.Hour), survivor},
			map[string]membership.View{survivor.Address: learner, blank("cp2").Address: learner},
			"2 may run",
		},
		"the only voter": {
			append(empty, survivor), map[string]membership.View{survivor.Address: listing("cp3")}, "1 may run",
		},
	} {
		got := mayGetQuorum(c.machines, c.lists, least)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestGrowthNeedsSnapshot(t *testing.T) {
	now := time.Now()
	before := func(d time.Duration) doneRestore { return doneRestore{cluster: 7, at: now.Add(-d)} }
	for _, c := range []struct {
		name    string
		voters  int
		cluster uint64
		done    doneRestore
		want    bool
	}{
		{"one voter", 1, 7, doneRestore{}, true},
		{"two voters", 2, 7, doneRestore{}, false},
		{"just restored", 1, 7, before(time.Second), false},
		{"restored a while ago", 1, 7, before(snapshotLasts), true},
		{"another cluster was restored", 1, 8, before(time.Second), true},
		{"the cluster is not known", 1, 0, doneRestore{at: now}, true},
	} {
		if got := growthNeedsSnapshot(c.voters, c.cluster, c.done, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRecoverAtOnce recovers from the survivor of three without a wait, and saves no snapshot before the first member
// joins, but before a later growth. An informer that was started before has what the cluster has.
func TestRecoverAtOnce(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	i := inform(t, f.specs)
	i.converges(t)
	f.empty("cp1", "cp2")
	survivor := f.machine("cp3")
	survivor.mu.Lock()
	survivor.since = time.Now().Add(-2 * time.Hour)
	survivor.mu.Unlock()
	f.request(machine.Restore{ID: "one", Member: "cp3"})
	f.clusters = f.coordinator()
	f.clusters.pace.DeadAfter = time.Hour
	for name, err := range f.update(f.clusters) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	f.serves("recovered", "later")
	f.wantSaved("cp3")
	i.converges(t)

	for _, name := range []string{"cp1", "cp2"} {
		f.calm(f.specs["cp3"])
		if err := f.clusters.Delete(f.context(), f.specs[name], DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.wantSaved("cp3", shrinkageLabel)
	f.on("cp3", func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, "/registry/pods/a", "new")
		return err
	})
	for name, err := range together(t, f.specs, func(s Spec) error {
		_, err := f.clusters.Create(f.context(), s)
		return err
	}, "cp1", "cp2") {
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", name, err))
		}
	}
	f.wantSaved("cp3", growthLabel, shrinkageLabel)
}
