package controlplane

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// install installs the three programs on a machine, or their images. Other versions stay where they
// are.
func install(ctx context.Context, s Spec) error {
	if err := installNode(ctx, s); err != nil {
		return err
	}
	if err := installKubelet(ctx, s); err != nil {
		return err
	}
	if by := runtime.Of(s.Replica); !by.OnMachine() {
		return provideImages(ctx, s)
	}
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

// provideImages pulls or imports the images that a machine does not have, before anything is stopped.
func provideImages(ctx context.Context, s Spec) error {
	if err := staticpod.ProvideForStart(ctx, s.Host, s.Source, pod.Images(s.Replica)); err != nil {
		return &problem.Problem{
			Summary: "Images of the control plane missing", Host: s.Machine(), Attribute: "image_repository",
			Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "give the machine access to the image repository; or put archives of the images at kubernetes-v" + s.Version +
				"/ in artifacts.directory, such as kube-apiserver.tar; or import the images there. Then apply again.",
		}
	}
	return nil
}

// apply writes the files and restarts the API server if needed.
func apply(ctx context.Context, s Spec, d changes) error {
	by := runtime.Of(s.Replica)
	change := host.Change{
		Dirs: slices.Concat(component.Directories(), by.Dirs(), d.dirs), Files: d.files,
		Remove: slices.Concat(d.remove, machine.PausedPaths()), Script: by.Enable(component.NamesOf(s.Replica)),
	}
	change.Script = d.setModes() + change.Script
	if d.rollback != nil { // first: from now on a rollback is possible
		change.Files = append([]host.File{d.rollback.File()}, d.files...)
	}
	if d.isCreate { // first: from now on the machine names its owner
		change.Files = append([]host.File{machine.CreatingFile(s.Replica)}, d.files...)
		change.Script = host.Discard(machine.CreatingPath) + change.Script // the record is written
	}
	change.Script += host.Flush(append(by.Directories(), component.KubernetesDir)...)
	links, dirs := timer.Links(machine.Jobs(s.Replica))
	change.Dirs, change.Links = append(change.Dirs, dirs...), append(change.Links, links...)
	change.Script += d.timers
	if len(d.stopFirst) > 0 {
		change.Script += by.Pause(d.stopFirst)
	}
	for _, name := range component.NamesOf(s.Replica) {
		if by.OnMachine() {
			change.Users = append(change.Users, host.User{Name: name})
		}
	}
	if d.restarts(release.APIServer) {
		problem.Progress(ctx, "%s: starting %s", s.Machine(), release.APIServer)
		change.Script += startScript(by, d)
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
		seen, err = observeReady(groupCtx, s)
		return err
	})
	if err := group.Wait(); err != nil {
		return Status{}, err
	}
	seen.Registered = true
	return seen, nil
}

// enterRotation registers a ready replica, and waits for agents that reach it only in rotation.
func enterRotation(ctx context.Context, s Spec, agents agentsWait) (Status, error) {
	seen, err := register(ctx, s)
	if err == nil && agents.registered {
		err = awaitAgents(ctx, s, agents)
	}
	return seen, err
}

// bringUp applies d, restarts the API server first and the others once it is ready, and returns
// when all of them are ready. An upgrade requires that order, because no component may be newer
// than the API server that it connects to. In a new cluster, the others would otherwise be
// rejected, because their roles do not exist until the API server is ready. bringUp gives up
// early on a component that crash-loops.
func bringUp(ctx context.Context, s Spec, d changes) error {
	if err := apply(ctx, s, d); err != nil {
		return err
	}
	if err := awaitReady(ctx, s, d); err != nil {
		return err
	}
	if !d.agents.registered {
		if err := awaitAgents(ctx, s, d.agents); err != nil {
			return err
		}
	}
	return removeKonnectivity(ctx, s, d.konnectivity)
}

// bindBeforeCertificateChange ensures the bindings before the API server receives another client certificate for
// kubelets. The server uses the new certificate within a minute, and loses the rights that only
// the old one had. An API server that does not serve uses no certificate; its bindings follow
// once it is ready.
func bindBeforeCertificateChange(ctx context.Context, s Spec, d changes) error {
	if !d.writes(component.KubeletClientCert) {
		return nil
	}
	if serves, err := s.client().Serves(ctx); err != nil || !serves {
		return nil
	}
	return s.client().EnsureBindings(ctx)
}
