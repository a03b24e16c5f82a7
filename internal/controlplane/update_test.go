package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestChangeable(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	if err := checkChangeable(s, f); err != nil {
		t.Error(err)
	}
	s.Version = "1.37.2"
	if err := checkChangeable(s, f); err != nil {
		t.Errorf("a version alone: %v", err)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if err := checkChangeable(s, f); !problem.Untouched(err) || !strings.Contains(cptest.Text(err), "would change together") || !strings.Contains(cptest.Text(err), "set version back to 1.36.3") {
		t.Errorf("a version and a stage: %v", err)
	}
	s.Version = "1.36.3"
	if err := checkChangeable(s, f); err != nil {
		t.Errorf("a stage alone: %v", err)
	}
}
