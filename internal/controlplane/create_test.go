package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestPreflightAcceptsAnInterruptedCreate(t *testing.T) {
	s := testSpec(t)
	if err := machine.Preflight(s.Replica, converged(t, s)); err != nil {
		t.Error(err)
	}
	other := s
	other.Name = "cp2"
	if err := machine.Preflight(other.Replica, converged(t, s)); !strings.Contains(cptest.Text(err),
		`holds replica "cp1" of this cluster`) {
		t.Errorf("another replica on the same machine: %v", err)
	}
}

// TestCreateEndsAfterTheKubelet: images that are missing after a kubelet was installed leave a state, so that a
// destroy removes that again.
func TestCreateEndsAfterTheKubelet(t *testing.T) {
	s := unreachable(t)
	s.Runtime = component.StaticPod
	cutOff := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{node.RecordPath: {Content: "{}"}}}}
	for name, c := range map[string]struct {
		f         machine.Observed
		installed bool
	}{
		"the kubelet was there":                      {machine.Observed{}, false},
		"the kubelet was missing":                    {machine.Observed{NodeMissing: true}, true},
		"a Create that was cut off has installed it": {cutOff, true},
	} {
		err := withNode(provideImages(t.Context(), s), s.Replica, c.f)
		if text := cptest.Text(err); err == nil || problem.Untouched(err) == c.installed ||
			strings.Contains(text, "containerd and the kubelet are installed") != c.installed {
			t.Errorf("%s: %s", name, text)
		}
	}
	if err := withNode(nil, s.Replica, machine.Observed{NodeMissing: true}); err != nil {
		t.Error(err)
	}
}

// TestCreateWithoutItsKubelet: a replica that serves, and whose kubelet does not follow, is tainted by Terraform. The
// error says so, how to keep it, and what state the step has left. One that was there before is not tainted.
func TestCreateWithoutItsKubelet(t *testing.T) {
	s := testSpec(t)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a refusal": {
			&problem.Problem{Summary: "x", Unchanged: problem.Nothing, Next: "fix this, then apply again."},
			"Unchanged: the replica, which serves, and is in rotation. Terraform marks the replica as tainted",
		},
		"Pods that stay": {
			notDrained(s, &tolerated{}, "Pods", nil, notEvicted), "Unchanged: " + notEvicted + " Terraform marks",
		},
		"out of rotation":     {withRotationState(&problem.Problem{}, rotationAfter(true)), "out of rotation"},
		"without a remedy":    {&problem.Problem{Summary: "x"}, "Next step: to keep it"},
		"no problem":          {errors.New("the machine went away"), "Cause: the machine went away"},
		"the apply was ended": {context.Canceled, "Cause: context canceled"},
	} {
		adopted := cptest.Text(notFollowed(s, errors.New(c.err.Error()), true))
		if strings.Contains(adopted, "taint") {
			t.Errorf("%s, of one that was there before: %s", name, adopted)
		}
		err := notFollowed(s, c.err, false)
		if text := cptest.Text(err); problem.Untouched(err) || !errors.Is(err, c.err) ||
			!strings.Contains(text, problem.Untaint) || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %q", name, text, c.want)
		}
	}
	for _, adopted := range []bool{false, true} {
		if err := notFollowed(s, nil, adopted); err != nil {
			t.Error(err)
		}
	}
}
