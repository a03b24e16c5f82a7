package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// soon returns the context of an operation with a short timeout.
func soon(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestWaitForOtherProcessChangesNothing: a Create whose time is over while another process has the lease leaves no
// state. The next apply would destroy the member that it has found.
func TestWaitForOtherProcessChangesNothing(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2")
	f.create(specs, "cp1")
	s := specs["cp1"]
	f.machine("cp1").takeOver(LeaseName(f.bundle.ClusterID))
	f.clusters = f.coordinator()
	cl := f.clusters.of(s)
	onVolume, archived := s, specs["cp2"]
	onVolume.Volume = &volume.Spec{Device: "/dev/sdb", MountPath: "/srv"}
	archived.ArchivedDataDir = "/var/lib/etcd-archive/1"
	for name, create := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := f.clusters.Create(ctx, s)
			return err
		},
		"join": func(ctx context.Context) error {
			_, err := cl.join(ctx, s)
			return err
		},
		"take the volume":           func(ctx context.Context) error { return cl.takeVolume(ctx, onVolume) },
		"take up the archived data": func(ctx context.Context) error { return cl.takeUp(ctx, archived) },
	} {
		if err := create(soon(t, time.Second)); !problem.Untouched(err) || !errors.As(err, new(*host.HeldError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnansweredMemberIsNotTainted: a Create that adopts a stopped member, and whose time is over while no quorum
// answers, leaves no state. Nor does that of a new member in the same batch, on whose machine nothing is.
func TestUnansweredMemberIsNotTainted(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2")
	f.kill("cp1", false)
	f.kill("cp2", false)
	f.clusters = f.coordinator()
	f.clusters.of(specs["cp1"]).pace.ConditionTimeout = time.Minute
	ctx := soon(t, 5*time.Second)
	for name, err := range together(t, specs, func(s Spec) error {
		_, err := f.clusters.Create(ctx, s)
		return err
	}, "cp1", "cp3") {
		if adopted := name == "cp1"; !errors.Is(err, context.Canceled) || errors.Is(err, ErrAdopted) != adopted ||
			problem.Untouched(err) == adopted {
			t.Errorf("create of %s: %v", name, err)
		}
	}
	if f.machine("cp1").starts != 2 {
		t.Errorf("the member was started %d times", f.machine("cp1").starts)
	}
}

// TestAfterResume: only what resume may have started in the middle of a bootstrap can be half created.
func TestAfterResume(t *testing.T) {
	failed := errors.New("it does not start")
	s := Spec{Spec: machine.Spec{Name: "cp1", Host: (&host.Pool{}).Host(host.Target{Address: "10.0.0.1"})}}
	for name, c := range map[string]struct {
		f                  machine.Observed
		untouched, adopted bool
	}{
		"established":       {machine.Observed{Data: true}, false, true},
		"not started yet":   {machine.Observed{Data: true, Pending: true}, false, false},
		"without any data":  {machine.Observed{}, true, false},
		"not even its data": {machine.Observed{Pending: true}, true, false},
	} {
		err := afterResume(s, c.f, failed)
		if !errors.Is(err, failed) || problem.Untouched(err) != c.untouched || errors.Is(err, ErrAdopted) != c.adopted {
			t.Errorf("%s: %v", name, err)
		}
	}
}
