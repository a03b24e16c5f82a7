package controlplane

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
)

func TestChangesVersion(t *testing.T) {
	s := testSpec(t)
	for _, c := range []struct {
		name  string
		alter func(*machine.Observed)
		want  bool
	}{
		{"as it is", func(*machine.Observed) {}, false},
		{"an older one runs", func(f *machine.Observed) {
			f.Executables[release.APIServer] = component.Artifact("1.35.4", release.APIServer).Path()
		}, true},
		{"one was left behind", func(f *machine.Observed) {
			f.Executables[release.Scheduler] = component.Artifact("1.35.4", release.Scheduler).Path()
		}, true},
		{"an older one would start", func(f *machine.Observed) {
			f.Executables = nil
			edit(f, unit.Path(release.APIServer),
				"[Service]\nExecStart="+component.Artifact("1.35.4", release.APIServer).Path()+" --v=1\n")
		}, true},
		{"the wanted one does not come up", func(f *machine.Observed) { f.Executables = nil }, false},
	} {
		f := converged(t, s)
		c.alter(&f)
		if have := changesVersion(s, f); have != c.want {
			t.Errorf("%s: %v", c.name, have)
		}
	}
	if changesVersion(s, bare()) {
		t.Error("a bare machine changes its version")
	}
}
