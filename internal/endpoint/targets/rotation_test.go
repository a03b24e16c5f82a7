package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestMayLeave: at most one replica is out of rotation, the last one stays, and one that is
// not ready may always leave.
func TestMayLeave(t *testing.T) {
	down := errors.New("connection refused")
	ready := Target{Replica: Replica{Name: "x"}}
	notReady := Target{Replica: Replica{Name: "x"}, NotReady: down}
	lost := Target{Unreachable: down, NotReady: down}
	abandoned := Target{Unreachable: down, NotReady: down, Abandoned: true}
	lostButServing := Target{Unreachable: down}
	empty := Target{NotReady: errNoReplica}
	foreign := Target{Foreign: true}
	foreignOut := Target{Foreign: true, NotReady: down}
	other := Target{NotReady: errNoReplica, Other: "replica of another endpoint"}
	unknown := Target{Replica: Replica{Name: "x"}, NotReady: fmt.Errorf("%w: %w", ErrUnknown, down)}
	for _, c := range []struct {
		name   string
		leaver Target
		others []Target
		how    Leaving
		why    string // "" if it may leave
		last   bool
	}{
		{"for a restart, all others ready", ready, []Target{ready, ready}, ToReturn, "", false},
		{"for a restart, another one out", ready, []Target{ready, notReady}, ToReturn, "another replica is not ready", false},
		{"for a restart, the only one", ready, []Target{empty, other}, ToReturn, "", false},
		{"for a restart, all others out", ready, []Target{notReady}, ToReturn, "last replica that is ready", true},
		{"for a restart, a machine lost", ready, []Target{ready, lost}, ToReturn, "another replica is not ready", false},
		{"for a restart, a machine lost that serves", ready, []Target{lostButServing}, ToReturn, "", false},
		{"for a restart, one of somebody else serves", ready, []Target{foreign}, ToReturn, "", false},
		{"for a restart, one of somebody else is out", ready, []Target{ready, foreignOut}, ToReturn, "not imported", false},
		{"as the last, one of somebody else is out", ready, []Target{foreignOut}, AsLast, "", false},
		{"for good, only one of somebody else serves", ready, []Target{foreign}, ForGood, "last replica that is ready", true},
		{"for good, another one ready", ready, []Target{ready, notReady}, ForGood, "", false},
		{"for good, the only one", ready, nil, ForGood, "last replica that is ready", true},
		{"for good, another one out", ready, []Target{notReady}, ForGood, "last replica that is ready", true},
		{"as the last, the only one", ready, []Target{empty}, AsLast, "", false},
		{"as the last, another one out", ready, []Target{notReady}, AsLast, "last replica that is ready", true},
		{"as the last, a machine lost", ready, []Target{lost}, AsLast, "last replica that is ready", true},
		{"as the last, a machine abandoned", ready, []Target{abandoned, empty}, AsLast, "", false},
		{"for a restart, a machine abandoned", ready, []Target{ready, abandoned}, ToReturn, "another replica is not", false},
		{"not ready itself", notReady, []Target{notReady}, ToReturn, "", false},
		{"not known itself", unknown, []Target{notReady}, AsLast, "last replica that is ready", true},
		{"not known itself, another one ready", unknown, []Target{ready}, ForGood, "", false},
		{"for a restart, another one not known", ready, []Target{unknown}, ToReturn, "last replica that is ready", true},
		{"has no replica", empty, []Target{ready}, ForGood, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := Observed{"leaver": c.leaver}
			for i, o := range c.others {
				seen[string(rune('a'+i))] = o
			}
			why, last := mayLeave("leaver", seen, c.how)
			if (c.why == "") != (why == "") || !strings.Contains(why, c.why) || last != c.last {
				t.Errorf("mayLeave gives %q, %v, want %q, %v", why, last, c.why, c.last)
			}
		})
	}
	if why, _ := mayLeave("unknown", Observed{"a": ready}, ForGood); why != "" {
		t.Errorf("a replica that is not a target may not leave: %s", why)
	}
}

// TestNoTargetLeavesToReturn: a replica that the targets do not have by its name, as after a renamed key, would restart
// while clients are sent to it. It may be removed.
func TestNoTargetLeavesToReturn(t *testing.T) {
	s := NewObserver(nil, nil).For(endpoint.Registration{Hosts: map[string]string{"a": "10.0.0.11"}})
	for how, refused := range map[Leaving]bool{ToReturn: true, ForGood: false, AsLast: false} {
		err := s.MayLeave(t.Context(), "cp1", Observed{"a": {Replica: Replica{Name: "a"}}}, how, nil)
		if errors.Is(err, ErrNotATarget) != refused || (err != nil) != refused {
			t.Errorf("%d: %v", how, err)
		}
	}
}

// TestUnlessLate: what is certain is not asked again.
func TestUnlessLate(t *testing.T) {
	late, refused := &probeError{fmt.Errorf("Get: %w", context.DeadlineExceeded)}, &probeError{host.ErrRefused}
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"ready": {[]error{nil}, nil}, "late once": {[]error{late, nil}, nil}, "a hang": {[]error{late, late}, late},
		"refused": {[]error{refused}, refused}, "late, then refused": {[]error{late, refused}, refused},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			err := unlessLate(t.Context(), func() error { asked++; return c.answers[asked-1] })
			if asked != len(c.answers) || !errors.Is(err, c.want) {
				t.Errorf("%s: %v after %d", name, err, asked)
			}
		})
	}
}

// TestLeaverIsProbedAgain: a replica whose probe has failed, and that could not leave if it were ready, leaves only
// when it has failed again and again. What is certain is not asked again.
func TestLeaverIsProbedAgain(t *testing.T) {
	slow, refused := &probeError{errors.New("deadline exceeded")}, &probeError{fmt.Errorf("dial: %w", host.ErrRefused)}
	drained, unknown := errors.New("it was taken out of rotation"), fmt.Errorf("%w: broken pipe", ErrUnknown)
	for name, c := range map[string]struct {
		leaver  Target
		other   error // why another replica is not ready
		how     Leaving
		answers []error // of the leaver, when it is probed again
		asked   int
		refused bool
	}{
		"late once":          {Target{NotReady: slow}, slow, ToReturn, []error{nil}, 1, true},
		"late for good":      {Target{NotReady: slow}, slow, ToReturn, []error{slow, slow, slow}, 3, false},
		"ready at the end":   {Target{NotReady: slow}, slow, AsLast, []error{slow, slow, nil}, 3, true},
		"drained, and late":  {Target{NotReady: slow}, slow, ToReturn, []error{drained}, 1, false},
		"unknown, and late":  {Target{NotReady: slow}, slow, ToReturn, []error{slow, unknown}, 2, true},
		"the others serve":   {Target{NotReady: slow}, nil, ToReturn, nil, 0, false},
		"refused":            {Target{NotReady: refused}, slow, ToReturn, nil, 0, false},
		"late, then refused": {Target{NotReady: slow}, slow, ForGood, []error{refused}, 1, false},
		"drained":            {Target{NotReady: drained}, slow, ToReturn, nil, 0, false},
		"ready":              {Target{}, slow, ToReturn, nil, 0, true},
		"unreachable":        {Target{NotReady: drained, Unreachable: drained}, slow, ForGood, []error{nil}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.leaver.Replica = Replica{Name: "cp1"}
			seen := Observed{"cp1": c.leaver, "cp2": {Replica: Replica{Name: "cp2"}, NotReady: c.other}}
			asked := 0
			confirmed, err := confirm(t.Context(), "cp1", seen, c.how, func(_ context.Context, leaver Target) Target {
				leaver.NotReady = c.answers[asked]
				asked++
				return leaver
			})
			why, _ := mayLeave("cp1", confirmed, c.how)
			if err != nil || asked != c.asked || (why != "") != c.refused {
				t.Errorf("%s: probed again %d times, %q, %v", name, asked, why, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := Observed{"cp1": {Replica: Replica{Name: "cp1"}, NotReady: slow}}
	if _, err := confirm(ctx, "cp1", late, ForGood, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interruption: %v", err)
	}
}
