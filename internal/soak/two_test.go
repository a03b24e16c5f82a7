package soak

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// TestDivisions: every machine has an owner for its member and one for its replica, and no
// second owner unless the states are copies.
func TestDivisions(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4", "cp5"}
	for _, d := range divisions {
		members, replicas := d.owns(all)
		for what, owned := range map[string][2][]string{"members": members, "replicas": replicas} {
			got := slices.Concat(owned[0], owned[1])
			slices.Sort(got)
			want := slices.Clone(all)
			if d.copy {
				want = slices.Sorted(slices.Values(slices.Concat(all, all)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the %s belong to %q", d.name, what, owned)
			}
		}
	}
	for _, g := range jointGroups {
		for _, name := range append(g.builds, g.from.Etcd, g.from.Kubernetes) {
			if !slices.Contains(build.Names(), name) {
				t.Errorf("%s: package build knows nothing called %q", g.name, name)
			}
		}
	}
}

// TestJudge: each violation is counted as a failure of its own.
func TestJudge(t *testing.T) {
	own := func(names ...string) map[string]any {
		return map[string]any{"members": placed(names, nil), "replicas": placed(names, nil)}
	}
	p := &pair{units: [2]*unit{{name: "first", variables: own("cp1")}, {name: "second", variables: own("cp2", "cp3")}}}
	good := func() observation {
		s := observation{restarts: []restart{{"cp1", 1, 2}, {"cp2", 3, 4}}, rotation: [][]string{{"cp1"}, {"cp2"}}}
		s.ends[0].how, s.ends[1].how = applied, refused
		s.ends[0].changed, s.later = 2, [2]int{0, 4}
		s.clients.Clients = []load.Client{{All: load.Requests{Tried: 10}, Acknowledged: 5}}
		s.clients.Hashes = &load.Hashes{Members: []load.MemberHash{{Name: "cp1", Hash: 1}}}
		return s
	}
	for _, c := range []struct {
		name     string
		change   func(*observation)
		failures int
		detail   string
	}{
		{
			"all well", func(*observation) {}, 0,
			"first applied after 0 s and 2 changes, second refused after 0 s and 0 changes; 2 restarts of members; " +
				"5 writes acknowledged, 0 lost; requests: 0 of 10 failed (0 excused, 0 refused), 0 repeated",
		},
		{
			"one failed in the middle", func(s *observation) { s.ends[1].how, s.ends[1].message = failing, "broken" }, 1,
			"the second apply failed in the middle: broken",
		},
		{
			"both refused", func(s *observation) {
				s.ends[0].how, s.ends[0].changed, s.later[0] = refused, 0, 2
			}, 1, "the operation was not tested: neither apply was completed",
		},
		{
			"the first changed too little", func(s *observation) { s.ends[0].changed = 1 }, 1,
			"the first unit has changed 1 resources, not 2",
		},
		{
			"the second never changed", func(s *observation) { s.later[1] = 0 }, 1,
			"the second unit has changed 0 resources, not 4",
		},
		{"a second cluster", func(s *observation) { s.alive = errOtherCluster }, 1, "another etcd cluster"},
		{"restarts at once", func(s *observation) { s.restarts[1].from = 1.5 }, 1, "members restarted at once: cp1"},
		{"nothing restarted", func(s *observation) { s.restarts = nil }, 1, "0 members were restarted, not 2"},
		{"two replicas out", func(s *observation) { s.rotation[1] = []string{"cp1", "cp2"} }, 1, "cp1 and cp2"},
		{"the balancer was not seen", func(s *observation) { s.rotation = nil }, 1, "the recording of the balancer failed"},
		{
			"a write is lost", func(s *observation) { s.clients.Clients[0].Lost = []string{"x"} }, 1,
			"1 of 5 acknowledged writes lost",
		},
		{"a request fails", func(s *observation) { s.clients.Clients[0].All.Failed = 1 }, 1, "clients noticed the applies"},
		{"the hashes are not known", func(s *observation) { s.clients.Hashes = nil }, 1, "clients noticed the applies"},
		{"the next apply fails", func(s *observation) { s.after = errors.New("no") }, 1, "no"},
	} {
		seen := good()
		c.change(&seen)
		var r Result
		p.evaluate(&r, jointOperation{restarts: 2, every: true}, seen)
		if r.Tried-r.Passed != c.failures || !strings.Contains(r.Detail, c.detail) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestUnchanged: how many resources each operation must have changed.
func TestUnchanged(t *testing.T) {
	for _, c := range []struct {
		operation         jointOperation
		members, replicas int
		want              int
	}{
		{jointOperation{every: true}, 2, 3, 5},
		{jointOperation{every: true, members: true}, 2, 3, 2},
		{jointOperation{every: true, members: true}, 0, 3, 0},
		{jointOperation{}, 2, 3, 2},
		{jointOperation{}, 0, 3, 1},
	} {
		if got := c.operation.least(c.members, c.replicas); got != c.want {
			t.Errorf("%+v with %d members and %d replicas changes %d, want %d", c.operation, c.members, c.replicas, got, c.want)
		}
	}
	own := map[string]any{"members": placed([]string{"cp1", "cp2"}, nil)}
	units := [2]*unit{{name: "first", variables: own}, {name: "second", variables: own}}
	p := &pair{division: division{copy: true}, units: units}
	var seen observation
	seen.ends[0].how, seen.ends[0].changed, seen.ends[1].how = applied, 2, refused
	if got := p.unchanged(jointOperation{every: true}, seen); len(got) > 0 {
		t.Errorf("one copy has changed everything: %q", got)
	}
	seen.ends[0].changed = 1
	if got := p.unchanged(jointOperation{every: true}, seen); !slices.Equal(got, []string{
		"both applies have changed 1 resources, not 2",
	}) {
		t.Errorf("the copies have changed one: %q", got)
	}
	if got := (&pair{units: units}).unchanged(jointOperation{members: true}, observation{}); len(got) != 3 {
		t.Errorf("nothing was done: %q", got)
	}
}
