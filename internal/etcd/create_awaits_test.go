package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// withNames returns the specs of members under other names on the same machines, by the former name.
func (f *fleet) withNames(specs map[string]Spec, names map[string]string) map[string]Spec {
	renamed, peers := map[string]Spec{}, map[string]*host.Host{}
	for name, s := range specs {
		if to := names[name]; to != "" {
			s.Name, renamed[name] = to, f.renamed(s, to)
		}
		peers[s.Name] = s.Host
	}
	for name, s := range renamed {
		s.Peers = peers
		renamed[name] = s
	}
	return renamed
}

// createBeforeDelete runs Creates, and then Deletes that have begun when the Creates have their turn.
func (f *fleet) createBeforeDelete(creates, deletes []Spec) (created, deleted []error) {
	f.t.Helper()
	created, deleted = make([]error, len(creates)), make([]error, len(deletes))
	cl := f.clusters.of(deletes[0])
	turn := cl.turns.Enter()
	var group sync.WaitGroup
	for i, s := range creates {
		group.Go(func() { _, created[i] = f.clusters.Create(f.context(), s) })
	}
	f.until("the Creates wait", func() bool {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		waiting, _ := turn.Others()
		return waiting == 1 && len(cl.openBatch.specs) == len(creates)
	})
	for i, s := range deletes {
		group.Go(func() { deleted[i] = f.clusters.Delete(f.context(), s, DeleteOptions{}) })
		f.until("the Delete waits", func() bool {
			waiting, _ := turn.Others()
			return waiting == i+2
		})
	}
	turn.Leave()
	group.Wait()
	return created, deleted
}

// until waits until a condition holds.
func (f *fleet) until(what string, holds func() bool) {
	f.t.Helper()
	done, err := poll.Until(f.context(), 5*time.Millisecond, 20*time.Second, func() (bool, error) { return holds(), nil })
	if !done || err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
}

// TestRenamedMembersOnTheirMachines is a for_each whose keys are the names of the members: two of three are renamed,
// and their Creates begin before their Deletes. The leader is one of them: it leaves last.
func TestRenamedMembersOnTheirMachines(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.protect()
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	before := f.calm(specs["cp1"])
	leader := leaderOf(before)
	others := slices.DeleteFunc(everyone, func(name string) bool { return name == leader })
	renamed := f.withNames(specs, map[string]string{leader: "a", others[0]: "b"})
	f.clusters = f.coordinator()
	created, deleted := f.createBeforeDelete([]Spec{renamed[leader], renamed[others[0]]},
		[]Spec{specs[leader], specs[others[0]]})
	for _, err := range slices.Concat(created, deleted) {
		if err != nil {
			t.Error(err)
		}
	}
	f.clusters = f.coordinator()
	if v := f.calm(specs[others[1]]); v.ClusterID != before.ClusterID || roster(v) != "a b "+others[1] {
		t.Errorf("the cluster was %x, is now\n%s", before.ClusterID, v)
	}
}

// TestRenamedMembersThatStay verifies that the Creates of renamed members are refused if their Deletes are: neither
// waits for the other for ever.
func TestRenamedMembersThatStay(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	everyone := []string{"cp1", "cp2", "cp3"}
	specs := f.specs(everyone...)
	f.create(specs, everyone...)
	f.calm(specs["cp1"])
	f.kill("cp3", true)
	renamed := f.withNames(specs, map[string]string{"cp1": "a", "cp2": "b"})
	f.clusters = f.coordinator()
	created, deleted := f.createBeforeDelete([]Spec{renamed["cp1"], renamed["cp2"]}, []Spec{specs["cp1"], specs["cp2"]})
	for i, err := range created {
		want := fmt.Sprintf("member %q of this cluster", everyone[i])
		if err == nil || !strings.Contains(err.Error(), want) || !problem.Untouched(err) {
			t.Errorf("create on the machine of %s: %v", everyone[i], err)
		}
	}
	for i, err := range deleted {
		if err == nil || !strings.Contains(err.Error(), "cp3") || !problem.Untouched(err) {
			t.Errorf("delete of %s: %v", everyone[i], err)
		}
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
}

// TestOnlyMemberRenamed verifies that the only member stays: its successor cannot join before it leaves.
func TestOnlyMemberRenamed(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	s := f.withNames(specs, map[string]string{"cp1": "a"})["cp1"]
	f.clusters = f.coordinator()
	const cause = `it has the data of member "cp1"`
	if _, err := f.clusters.Create(f.context(), s); err == nil || !strings.Contains(err.Error(), cause) {
		t.Errorf("create before its Delete has begun: %v", err)
	}
	f.clusters = f.coordinator() // without the failed Create
	created, deleted := f.createBeforeDelete([]Spec{s}, []Spec{specs["cp1"]})
	if err := created[0]; err == nil || !strings.Contains(err.Error(), cause) || !problem.Untouched(err) {
		t.Errorf("create: %v", err)
	}
	if err := deleted[0]; err == nil || !strings.Contains(err.Error(), "last voting member") || !problem.Untouched(err) {
		t.Errorf("delete: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1")
}

// TestNamesakeLeaves verifies that a member whose key and machine change in one run waits until the other member of its
// name has left.
func TestNamesakeLeaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.clusters = f.coordinator()
	created, deleted := f.createBeforeDelete([]Spec{f.namesake(specs, "cp3", "cp4")}, []Spec{specs["cp3"]})
	if created[0] != nil || deleted[0] != nil {
		t.Errorf("create: %v\ndelete: %v", created[0], deleted[0])
	}
	f.wantReplaced(specs, "cp3", "cp4")
	f.machine("cp3").wantClean()
}

// TestArrivals verifies that a Create that waits for a Delete counts as such until that one has ended, and that the end
// of a Delete forgets no Create of a namesake that is in progress.
func TestArrivals(t *testing.T) {
	cl := NewClusters().named("prod")
	for _, name := range []string{"a", "b", "c"} {
		cl.creating(name)
	}
	cl.created("c", errors.New("it does not start"))
	cl.await("b", "cp2")
	cl.countLeaving("cp2", +1)
	want := arrivals{pending: []string{"a"}, awaiting: []string{"b"}, failed: []string{"c"}}
	if got := cl.arrivals(); !reflect.DeepEqual(got, want) {
		t.Errorf("while it leaves: %+v", got)
	}
	cl.countLeaving("cp2", -1)
	cl.forgetFailure("a")
	cl.forgetFailure("c")
	want = arrivals{pending: []string{"a", "b"}, following: []string{"b"}}
	if got := cl.arrivals(); !reflect.DeepEqual(got, want) {
		t.Errorf("when it has left: %+v", got)
	}
	cl.created("b", nil)
	cl.creating("b")
	want = arrivals{pending: []string{"a", "b"}}
	if got := cl.arrivals(); !reflect.DeepEqual(got, want) {
		t.Errorf("in another Create of the same name: %+v", got)
	}
}

// TestAfterRemoval verifies that a Create that finds the volume of another member on its machine begins again when a
// Delete of this process has ended. It is refused without one, and if the time is over before.
func TestAfterRemoval(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, "cp1")
	s := specs["cp1"]
	s.Name, s.Restore = "a", nil
	refused := cl.takeVolume(t.Context(), s)
	for _, leaves := range []string{"", "cp2"} {
		cl.countLeaving(leaves, +1)
		if again, err := cl.afterRemoval(t.Context(), s, refused); again || !errors.Is(err, refused) {
			t.Errorf("while %q leaves: %t, %v", leaves, again, err)
		}
	}
	cl.countLeaving("cp1", +1)
	if again, err := cl.afterRemoval(soon(t, time.Millisecond), s, refused); again || !problem.Untouched(err) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("when its time is over: %t, %v", again, err)
	}
	if all := cl.arrivals(); len(all.awaiting) > 0 {
		t.Errorf("%q still wait", all.awaiting)
	}
	go func() {
		cl.creating("a")
		for len(cl.arrivals().awaiting) == 0 {
			runtime.Gosched()
		}
		cl.countLeaving("cp1", -1)
	}()
	if again, err := cl.afterRemoval(soon(t, time.Minute), s, refused); !again || err != nil {
		t.Errorf("when the other has left: %t, %v", again, err)
	}
	if known := cl.machines()[s.Host.Address()]; known.name != "a" {
		t.Errorf("its machine is that of %q", known.name)
	}
	record := machines["10.0.0.1"].facts.Files[layout.RecordPath]
	record.Content = strings.ReplaceAll(record.Content, s.Bundle.ClusterID, "other")
	machines["10.0.0.1"].facts.Files[layout.RecordPath] = record
	if err := cl.takeVolume(t.Context(), s); err == nil || errors.As(err, new(*takenError)) {
		t.Errorf("on a machine of another cluster: %v", err)
	}
}
