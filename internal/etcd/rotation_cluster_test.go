package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The servers of these tests are etcd's own. Like the process of a unit, they read their
// CA pool from a file at the start, and certificate and key at each handshake.

// at returns the specs with another bundle.
func at(specs map[string]Spec, b *pki.Bundle) map[string]Spec {
	out := map[string]Spec{}
	for name, s := range specs {
		s.Bundle = b
		out[name] = s
	}
	return out
}

// updates runs Update for the named members in parallel and returns the errors.
func (f *fleet) updates(specs map[string]Spec, names ...string) map[string]error {
	f.t.Helper()
	return together(f.t, specs, func(s Spec) error {
		status, err := f.clusters.Update(f.context(), s)
		if err == nil && len(status.Drift) > 0 {
			err = errors.New(strings.Join(status.Drift, "\n"))
		}
		return err
	}, names...)
}

// rotate brings the named members to the generation of their specs.
func (f *fleet) rotate(specs map[string]Spec, names ...string) {
	f.t.Helper()
	for name, err := range f.updates(specs, names...) {
		if err != nil {
			f.t.Fatalf("update %s: %v", name, err)
		}
	}
	for _, name := range names {
		if m, want := f.marker(specs[name]), specs[name].Generation(); m.Generation != want {
			f.t.Errorf("%s is marked with generation %d, want %d", name, m.Generation, want)
		}
	}
}

func (f *fleet) marker(s Spec) machine.Record {
	f.t.Helper()
	got := f.clusters.of(s).observe(f.context(), s, s.Name, s.Host)
	if got.Record == nil {
		f.t.Fatalf("%s has no marker", s.Name)
	}
	return *got.Record
}

// refused checks that the named members do not change, and that the errors contain words.
func (f *fleet) refused(specs map[string]Spec, names []string, words ...string) {
	f.t.Helper()
	starts := map[string]int{}
	for name := range specs {
		starts[name] = f.machine(name).starts
	}
	for name, err := range f.updates(specs, names...) {
		if err == nil || !problem.Untouched(err) {
			f.t.Errorf("update %s: %v", name, err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				f.t.Errorf("update %s: %q is not in\n%v", name, word, err)
			}
		}
	}
	for name := range specs {
		if f.machine(name).starts != starts[name] {
			f.t.Errorf("%s was restarted", name)
		}
	}
}

// TestRotation moves three members through all stages, and back in between, with clients
// of the previous and of the next generation. Here the older authority does not cross-sign
// the newer one, as if its key were external: the rule is sufficient for neighbouring
// stages.
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := etcdtest.Lineage(t, f.bundle, 3)
	for _, b := range bundles {
		b.EtcdCARotation.Cross = ""
	}
	everyone := []string{"cp1", "cp2", "cp3"}
	acked := map[string]string{}
	starts := 1
	from := 0
	for step, to := range []int{1, 2, 1, 2, 3, 2} {
		writers := []*writer{
			f.writer(fmt.Sprintf("%d-old-%d", step, from), bundles[from], specs),
			f.writer(fmt.Sprintf("%d-new-%d", step, to), bundles[to], specs),
		}
		f.accepted(writers)
		f.under(writers, func() { f.rotate(at(specs, bundles[to]), everyone...) })
		f.accepted(writers)
		for _, w := range writers {
			if len(w.acked) < 3 {
				t.Errorf("%s wrote only %d keys", w.name, len(w.acked))
			}
			for key, value := range w.acked {
				acked[key] = value
			}
		}
		if bundles[from].Anchors(pki.Etcd) != bundles[to].Anchors(pki.Etcd) {
			starts++ // only the start reads the pool
		}
		f.wantStarts(starts)
		for name, s := range at(specs, bundles[to]) {
			if status, err := f.clusters.Read(f.context(), s); err != nil || len(status.Drift) > 0 || !status.Healthy {
				t.Errorf("at %d: read %s: %+v, %v", to, name, status, err)
			}
		}
		from = to
	}
	if most := f.outages.most.Load(); most != 1 {
		t.Errorf("%d members were down at the same time", most)
	}
	last := at(specs, bundles[from])
	for _, name := range everyone {
		f.client(last[name]).wantKeys(name, acked)
	}
	t.Logf("%d writes, none lost", len(acked))
}

// TestRotationCutOff leaves one member a stage behind when the others move to the next
// one.
func TestRotationCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := etcdtest.Lineage(t, f.bundle, 3)
	everyone := []string{"cp1", "cp2", "cp3"}
	f.rotate(at(specs, bundles[1]), "cp1", "cp2")
	next := at(specs, bundles[2])

	f.refused(next, []string{"cp1", "cp2"}, "cp3", "is still at generation 0", "set rotation.etcd back to 1")
	f.machine("cp3").lost = true
	f.refused(next, []string{"cp1"}, "it cannot be determined which etcd CA cp3",
		"recover the machine, or destroy the member")
	f.machine("cp3").lost = false
	// With it in the same run it goes first, even if it is the leader, directly to the
	// stage of the others.
	f.lead(specs["cp3"])
	f.inOrder(next, everyone, "cp3")

	// Two members are two stages away from the end of the third stage: only going back
	// helps.
	f.rotate(at(specs, bundles[3]), "cp1")
	f.refused(at(specs, bundles[1]), []string{"cp2", "cp3"}, "cp1", "is already at generation 3",
		"set rotation.etcd to 2 and apply, then lower it again")
	f.rotate(at(specs, etcdtest.Rotated(t, bundles[3], 2)), everyone...)
	f.rotate(at(specs, etcdtest.Rotated(t, bundles[2], 1)), everyone...)
	f.rotate(at(specs, etcdtest.Rotated(t, etcdtest.Rotated(t, bundles[2], 1), 0)), everyone...)
	f.accepted([]*writer{f.writer("back", bundles[0], specs)})
}

// TestRotationWaitsForTheRestart verifies that a process that has not loaded the files of
// the stage, because the apply was interrupted before its restart, blocks the next stage.
func TestRotationWaitsForTheRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := etcdtest.Lineage(t, f.bundle, 2)
	f.rotate(at(specs, bundles[1]), "cp1", "cp2")
	third := at(specs, bundles[1])["cp3"]
	got := f.clusters.of(third).observe(f.context(), third, third.Name, third.Host)
	r, err := machine.Repairs(third.Spec, got, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.machine("cp3").Change(f.context(), r.Change, machine.Action{}); err != nil {
		t.Fatal(err)
	}
	next := at(specs, bundles[2])
	f.refused(next, []string{"cp1"}, "cp3", "between two generations", "is running with a different "+layout.CAPath,
		"set rotation.etcd to 1")
	f.lead(specs["cp3"])
	f.inOrder(next, []string{"cp1", "cp2", "cp3"}, "cp3")
}

// TestRotationCutOffAtAnyFile verifies that a member can move forward and back whatever
// part of its files was written.
func TestRotationCutOffAtAnyFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := etcdtest.Lineage(t, f.bundle, 2)
	everyone := []string{"cp1", "cp2", "cp3"}
	f.rotate(at(specs, bundles[1]), everyone...)
	third := at(specs, bundles[2])["cp3"]
	for written := 1; ; written++ {
		got := f.clusters.of(third).observe(f.context(), third, third.Name, third.Host)
		r, err := machine.Repairs(third.Spec, got, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if written > len(r.Change.Files) {
			break
		}
		r.Change.Files = r.Change.Files[:written]
		if _, err := f.machine("cp3").Change(f.context(), r.Change, machine.Action{}); err != nil {
			t.Fatal(err)
		}
		if written%2 == 0 {
			f.rotate(at(specs, bundles[2]), everyone...)
		}
		f.rotate(at(specs, bundles[1]), everyone...)
	}
	f.calm(at(specs, bundles[1])["cp1"])
	f.wantStarts(2)
}

// lead makes a member the leader.
func (f *fleet) lead(s Spec) {
	f.t.Helper()
	clients, err := f.clusters.of(s).connect(s)
	if err != nil {
		f.t.Fatal(err)
	}
	defer clients.Close()
	done, err := poll.Until(f.context(), 50*time.Millisecond, 10*time.Second, func() (bool, error) {
		v := f.calm(s)
		if leaderOf(v) == s.Name {
			return true, nil
		}
		leader, _ := v.Member(v.Leader)
		return false, clients.MoveLeader(f.context(), leader.Address(), machine.EntryOf(&v, s.Spec).ID)
	})
	if !done || err != nil {
		f.t.Fatalf("%s does not lead: %v", s.Name, err)
	}
}

// inOrder updates the members in parallel and checks which is done first.
func (f *fleet) inOrder(specs map[string]Spec, names []string, first string) {
	f.t.Helper()
	order := make(chan string, len(names))
	for name, err := range together(f.t, specs, func(s Spec) error {
		_, err := f.clusters.Update(f.context(), s)
		order <- s.Name
		return err
	}, names...) {
		if err != nil {
			f.t.Fatalf("update %s: %v", name, err)
		}
	}
	if got := <-order; got != first {
		f.t.Errorf("%s was changed first, want %s", got, first)
	}
}

// TestJoinDuringARotation verifies that a new machine gets the desired generation, if the
// members are compatible with it.
func TestJoinDuringARotation(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	bundles := etcdtest.Lineage(t, f.bundle, 3)
	f.create(specs, "cp1")
	if _, err := f.clusters.Create(f.context(), at(specs, bundles[2])["cp2"]); err == nil || !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "cp1") || !strings.Contains(err.Error(), "is still at generation 0") {
		t.Fatalf("join at 2 beside a voter at 0: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1")
	f.create(at(specs, bundles[1]), "cp2")
	f.rotate(at(specs, bundles[1]), "cp1")
	f.rotate(at(specs, bundles[2]), "cp1", "cp2")
	f.create(at(specs, bundles[3]), "cp3")
	f.rotate(at(specs, bundles[3]), "cp1", "cp2")
	f.calm(at(specs, bundles[3])["cp1"])

	// A rebuilt machine has no files to check, and a dead one does not keep others of its
	// generation from joining.
	specs = at(f.specs("cp1", "cp2", "cp3", "cp4", "cp5"), bundles[3])
	f.wipe("cp2")
	f.rotate(specs, "cp2")
	f.create(specs, "cp4")
	f.calm(specs["cp1"])
	f.kill("cp4", true)
	if _, err := f.clusters.Create(f.context(), at(specs, etcdtest.Rotated(t, bundles[3], 4))["cp5"]); err == nil ||
		!problem.Untouched(err) ||
		!strings.Contains(err.Error(), "it cannot be determined which etcd CA cp4") {
		t.Errorf("join at 4 beside one at 3 that cannot be asked: %v", err)
	}
	f.create(specs, "cp5")
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3 cp4 cp5")
}
