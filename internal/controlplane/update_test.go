package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestCheckChangeable(t *testing.T) {
	s := testSpec(t)
	f, before := converged(t, s), s.Version
	if err := checkChangeable(s, f); err != nil {
		t.Error(err)
	}
	s.Version = "1.37.2"
	if err := checkChangeable(s, f); err != nil {
		t.Errorf("a version alone: %v", err)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if err := checkChangeable(s, f); !problem.Untouched(err) ||
		!strings.Contains(cptest.Text(err), "would change together") ||
		!strings.Contains(cptest.Text(err), "set version back to "+before) {
		t.Errorf("a version and a stage: %v", err)
	}
	s.Version = before
	if err := checkChangeable(s, f); err != nil {
		t.Errorf("a stage alone: %v", err)
	}
}
