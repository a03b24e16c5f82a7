package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
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

// TestUpdateChecksClock: a change ends with a certificate that is issued by the clock of this computer. A replica
// without drift is not refused for its clock.
func TestUpdateChecksClock(t *testing.T) {
	const refused = "the clock is 6m0s behind this computer's"
	for name, c := range map[string]struct {
		offset  time.Duration
		changes bool
		want    bool
	}{
		"behind":                {-6 * time.Minute, true, true},
		"within the limit":      {-time.Minute, true, false},
		"behind, without drift": {-6 * time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := unreachable(t)
			f := convergedAt(t, s, time.Now())
			f.Facts.ClockOffset = c.offset
			if c.changes {
				s.ExtraArgs = cptest.Args(release.APIServer, "v", "3")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := NewReplicas(nil).update(ctx, s, f)
			if text := cptest.Text(err); err == nil || strings.Contains(text, refused) != c.want ||
				c.want && !problem.Untouched(err) {
				t.Error(text)
			}
		})
	}
}
