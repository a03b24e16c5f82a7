package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// ErrNoReplicas means that the endpoint has no replica, so that there is no API server.
var ErrNoReplicas = errors.New("the endpoint has no replica")

// ErrNotReady means that no API server answers.
var ErrNotReady = errors.New("no API server is ready")

// ErrExternalCA means that a worker cannot join, because no API server's controller-manager can sign for it.
var ErrExternalCA = errors.New("the key of the Kubernetes CA is held elsewhere, so kube-controller-manager cannot " +
	"sign the certificates of kubelets that join with a bootstrap token")

// reachable is a replica that the balancers list.
type reachable struct {
	name   string
	client client.Client
}

// listed returns the replicas of an endpoint in the order of their names.
func (r *Replicas) listed(ctx context.Context, b *pki.Bundle, registrar Registrar) ([]reachable, error) {
	if b.External(pki.Kubernetes) {
		return nil, ErrExternalCA
	}
	all, err := registrar.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the replicas of the endpoint: %w", err)
	}
	if len(all) == 0 {
		return nil, ErrNoReplicas
	}
	var out []reachable
	for _, name := range slices.Sorted(maps.Keys(all)) {
		address, port, err := splitAddress(all[name])
		if err == nil { // the provider connects there
			err = errors.Join(component.ValidateName(name), isAddress(address), component.ValidatePort(port))
		}
		if err != nil {
			return nil, fmt.Errorf("read the address of replica %s on the balancers: %w", name, err)
		}
		s := component.Replica{Name: name, Address: address, Port: port, Bundle: b}
		out = append(out, reachable{name: s.Machine(), client: client.New(r.machine(address), s)})
	}
	return out, nil
}

// anyReady connects to the API server of the first replica that is ready.
func anyReady(ctx context.Context, replicas []reachable) (client.Applied, error) {
	var reasons []string
	var errs []error
	for _, replica := range replicas {
		ready, err := replica.client.Serves(ctx)
		if ready && err == nil {
			return replica.client.Applied()
		}
		if err == nil {
			err = fmt.Errorf("the API server of %s is not ready", replica.name)
		}
		reasons, errs = append(reasons, err.Error()), append(errs, err)
	}
	return client.Applied{}, &problem.Problem{
		Summary: "No API server is ready", Unchanged: problem.Nothing,
		Cause: "none of the replicas of the endpoint answers: " + strings.Join(reasons, "; "),
		Next:  "repair a replica, then apply again.",
		Err:   errors.Join(append(errs, ErrNotReady)...),
	}
}

// api connects to the API server of any replica.
func (r *Replicas) api(ctx context.Context, b *pki.Bundle, registrar Registrar) (client.Applied, error) {
	replicas, err := r.listed(ctx, b, registrar)
	if err != nil {
		return client.Applied{}, err
	}
	return anyReady(ctx, replicas)
}

// untouched marks err as a refusal before the first change, unless it has a form of its own.
func untouched(err error) error {
	var known *problem.Problem
	if errors.As(err, &known) {
		return err
	}
	return &problem.Problem{
		Summary: "Control plane not reached", Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
		Next: "check the endpoint and its replicas, then apply again.",
	}
}
