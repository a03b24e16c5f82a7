package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
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
