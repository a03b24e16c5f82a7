package controlplane

import (
	"errors"
	"slices"
	"testing"
)

// TestCreatesInProgress: a replica is pending during its Create, failed after one that failed
// until it is repaired, and not mentioned after one that succeeded.
func TestCreatesInProgress(t *testing.T) {
	var u inProgress
	cp1, cp2 := testSpec(t), testSpec(t)
	cp2.Name = "cp2"
	is := func(when string, pending, failed []string) {
		t.Helper()
		if p, f := u.others(cp1); !slices.Equal(p, pending) || !slices.Equal(f, failed) {
			t.Errorf("%s: pending %q, failed %q", when, p, f)
		}
	}
	all := []string{cp2.Machine()}
	is("before", nil, nil)
	done := u.create(cp2)
	defer u.create(cp1)(nil) // its own Create does not count
	is("during", all, nil)
	u.forget(cp2)
	is("during, and forgotten by an earlier operation", all, nil)
	done(errors.New("a bad flag"))
	is("after a failure", nil, all)
	u.forget(cp2)
	is("after the repair", nil, nil)
	u.create(cp2)(nil)
	is("after a success", nil, nil)
}

// TestDeletesInProgress: a replica is being deleted until its last Delete has ended.
func TestDeletesInProgress(t *testing.T) {
	var u inProgress
	cp1 := testSpec(t)
	is := func(want bool) {
		t.Helper()
		if got := u.isDeleted(cp1.Bundle.ClusterID, cp1.Name); got != want || u.isDeleted("other", cp1.Name) ||
			u.isDeleted(cp1.Bundle.ClusterID, "cp9") {
			t.Errorf("it is being deleted: %t, want %t", got, want)
		}
	}
	is(false)
	first := u.delete(cp1)
	is(true)
	second := u.delete(cp1)
	first()
	first() // counts once
	is(true)
	second()
	is(false)
}

// TestMemberChangesInProgress: a member is being changed until its last change has ended.
func TestMemberChangesInProgress(t *testing.T) {
	var u inProgress
	const here, there = "10.0.0.11", "10.0.0.12"
	is := func(want bool) {
		t.Helper()
		if u.changesMember(here) != want || u.changesMember(there) {
			t.Errorf("changes here %t, want %t; there %t", u.changesMember(here), want, u.changesMember(there))
		}
	}
	is(false)
	first := u.memberChange(here)
	is(true)
	second := u.memberChange(here)
	first()
	first() // counts once
	is(true)
	second()
	is(false)
}
