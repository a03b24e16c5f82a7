package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create installs and starts the three components, waits until all are ready, ensures the
// kubeadm:cluster-admins binding, and registers the replica with the endpoint. It continues an
// interrupted call. A running replica of the same identity is changed as by Update.
func (r *Replicas) Create(ctx context.Context, s Spec) (status Status, err error) {
	if err := s.Validate(); err != nil {
		return Status{}, err
	}
	done := r.inProgress.create(s)
	defer func() { done(err) }()
	held, err := takeMachineLease(ctx, s)
	if err != nil {
		return Status{}, err
	}
	defer held.Release()
	return r.create(held.Context(ctx), s)
}

func (r *Replicas) create(ctx context.Context, s Spec) (Status, error) {
	joining := r.beginCheckJoin(ctx, s)
	f, err := inspect(ctx, s.Host, s.Replica)
	if err != nil {
		return Status{}, err
	}
	if err := preflight(s.Replica, f); err != nil {
		return Status{}, err
	}
	if err := joining(); err != nil {
		return Status{}, err
	}
	if f.record.of(s.Replica) && runs(f.facts.Units[unit.Name(release.APIServer)]) {
		status, err := r.update(ctx, s, f)
		if err != nil {
			return status, &adoption{err}
		}
		return status, nil
	}
	if err := r.awaitRotation(ctx, s, f); err != nil {
		return Status{}, err
	}
	d, err := decide(s.Replica, f, time.Now())
	if err != nil {
		return Status{}, err
	}
	if err := install(ctx, s); err != nil {
		return Status{}, err
	}
	d.begins = f.record.ClusterID == ""
	if err := bringUp(ctx, s, d); err != nil {
		return Status{}, withRotationState(err, "it was not registered: the endpoint sends it no requests.")
	}
	return register(ctx, s)
}

// ErrAdopted means that Create found the replica running, and changing it failed.
var ErrAdopted = errors.New("the replica was there before")

// adoption marks a failure as ErrAdopted without changing its text.
type adoption struct{ error }

func (a *adoption) Unwrap() []error { return []error{a.error, ErrAdopted} }

// install installs the three programs on a machine. Other versions stay where they
// are.
func install(ctx context.Context, s Spec) error {
	var artifacts []host.Artifact
	for _, name := range release.Components() {
		artifacts = append(artifacts, component.Artifact(s.Version, name))
	}
	transferred, err := s.Host.Install(ctx, s.Source, artifacts)
	if err != nil {
		return fmt.Errorf("install Kubernetes %s on %s: %w", s.Version, s.Machine(), err)
	}
	for _, artifact := range transferred {
		problem.Progress(ctx, "%s: installed %s", s.Machine(), artifact.Path())
	}
	return nil
}

// apply writes the files and restarts the API server if needed.
func apply(ctx context.Context, s Spec, d changes) error {
	change := host.Change{Dirs: component.Directories(), Files: d.files, Remove: append(slices.Clone(d.remove), pausedPath), Script: unit.Enable()}
	if d.rollback != nil { // first: from now on a rollback is possible
		change.Files = append([]host.File{d.rollback.file()}, d.files...)
	}
	if d.begins { // first: from now on the machine names its owner
		change.Files = append([]host.File{creatingFile(s.Replica)}, d.files...)
		change.Script = host.Discard(creatingPath) + change.Script // the record is written
	}
	if len(d.halt) > 0 {
		change.Script += unit.Pause(d.halt)
	}
	for _, name := range release.Components() {
		change.Users = append(change.Users, host.User{Name: name})
	}
	if d.restarts(release.APIServer) {
		problem.Progress(ctx, "%s: starting %s", s.Machine(), release.APIServer)
		change.Script += unit.Restart([]string{release.APIServer})
	}
	if _, err := s.Host.Apply(ctx, change); err != nil {
		return fmt.Errorf("configure replica %s: %w", s.Machine(), err)
	}
	return nil
}

// register registers a ready replica, and observes its status in parallel.
func register(ctx context.Context, s Spec) (Status, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.Registrar.Register(groupCtx, s.Name, s.ServingAddress()); err != nil {
			return fmt.Errorf("register replica %s: %w", s.Machine(), err)
		}
		problem.Progress(ctx, "%s: registered with the endpoint", s.Machine())
		return nil
	})
	var seen Status
	group.Go(func() (err error) {
		seen, _, err = observeStatus(groupCtx, s)
		return err
	})
	if err := group.Wait(); err != nil {
		return Status{}, err
	}
	seen.Registered = true
	return seen, nil
}
