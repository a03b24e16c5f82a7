package controlplane

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
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
	for name, c := range map[string]struct {
		alter func(*machine.Observed)
		want  string
	}{
		"another replica":    {func(f *machine.Observed) { f.Record.Name = "cp9" }, `holds replica "cp9"`},
		"a broken machine":   {func(f *machine.Observed) { f.Problems = []string{"port 6443"} }, "port 6443"},
		"a machine in order": {func(*machine.Observed) {}, ""},
	} {
		f := converged(t, s)
		c.alter(&f)
		err := checkChangeable(s, f)
		if (err == nil) != (c.want == "") || !strings.Contains(cptest.Text(err), c.want) || err != nil &&
			!problem.Untouched(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
