package controlplane

import (
	"errors"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestReadOfAnUnreachableReplica(t *testing.T) {
	s := unreachable(t)
	s.Registrar = &recordingRegistrar{}
	if _, err := NewReplicas(nil).Read(t.Context(), s); !errors.Is(err, host.ErrUnreachable) || errors.Is(err, ErrGone) {
		t.Errorf("read: %v", err)
	}
}

func TestTemporaryUnreadinessIsNoDrift(t *testing.T) {
	s := testSpec(t)
	status := status(s, converged(t, s), []string{"not ready: etcd", healthy, healthy}, cptest.Now)
	if len(status.Drift) > 0 {
		t.Errorf("drift: %q", status.Drift)
	}
	if first := status.Components[0]; first.Healthy || first.Health != "not ready: etcd" || first.Version != "1.36.3" {
		t.Errorf("component is %+v", first)
	}
	if days := status.CertificateExpiry.Sub(cptest.Now).Hours() / 24; days < 360 || days > 366 {
		t.Errorf("first certificate ends in %.0f days", days)
	}
}

func TestIsUp(t *testing.T) {
	s := testSpec(t)
	restarting := converged(t, s)
	scheduler := restarting.Facts.Units[unit.Name(release.Scheduler)]
	scheduler.Active, scheduler.Sub, scheduler.Result = "activating", "auto-restart", "exit-code"
	restarting.Facts.Units[unit.Name(release.Scheduler)] = scheduler
	for name, c := range map[string]struct {
		observed machine.Observed
		health   []string
		up       bool
		started  bool
	}{
		"all ready":                      {converged(t, s), []string{healthy, healthy, healthy}, true, true},
		"one is not":                     {converged(t, s), []string{healthy, healthy, "does not answer"}, false, true},
		"one has ended after its answer": {restarting, []string{healthy, healthy, healthy}, false, false},
	} {
		status := status(s, c.observed, c.health, cptest.Now)
		if up, started := isUp(c.observed, status), isStarted(c.observed, status); up != c.up || started != c.started {
			t.Errorf("%s: up: %t, started: %t", name, up, started)
		}
	}
}
