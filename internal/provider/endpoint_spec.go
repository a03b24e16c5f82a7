package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// endpointSpec is an endpoint as it is wanted: a spec of the kind's domain package, with the operations on it.
type endpointSpec interface {
	identities() []string
	address() string
	create(ctx context.Context) (endpoint.Status, error)
	read(ctx context.Context) (endpoint.Status, error)
	// update gets the spec before the change, which is of the same kind.
	update(ctx context.Context, before endpointSpec) (endpoint.Status, error)
	// remove waits, in addition to the drain, for replicas that leave. alone is called for a
	// machine that belongs to another endpoint. It returns endpoint.ErrSuperseded if a Create has taken the endpoint over.
	remove(ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(why string)) error
}

// operations are those of a kind of endpoint without balancers, on a spec of its package.
type operations[S any] interface {
	Create(ctx context.Context, s S) (endpoint.Status, error)
	Read(ctx context.Context, s S) (endpoint.Status, error)
	Update(ctx context.Context, before, s S) (endpoint.Status, error)
}

// deletion deletes one endpoint, see endpointSpec.remove.
type deletion = func(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(why string),
) error

// targetsEndpoint is an endpoint without balancers.
type targetsEndpoint[S interface{ Registration() endpoint.Registration }] struct {
	operations[S]
	spec   S
	delete deletion
}

func (e targetsEndpoint[S]) identities() []string { return []string{endpointID(e.spec.Registration())} }

func (e targetsEndpoint[S]) address() string { return e.spec.Registration().Address }

func (e targetsEndpoint[S]) create(ctx context.Context) (endpoint.Status, error) {
	return e.Create(ctx, e.spec)
}

func (e targetsEndpoint[S]) read(ctx context.Context) (endpoint.Status, error) {
	return e.Read(ctx, e.spec)
}

func (e targetsEndpoint[S]) update(ctx context.Context, before endpointSpec) (endpoint.Status, error) {
	prior, _ := before.(targetsEndpoint[S])
	return e.Update(ctx, prior.spec, e.spec)
}

func (e targetsEndpoint[S]) remove(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
) error {
	return e.delete(ctx, wait, superseded, alone)
}

// spec returns the spec that the model describes.
func (r *endpointResource) spec(ctx context.Context, m endpointModel, diags *diag.Diagnostics) endpointSpec {
	drain, err := parseDuration(m.DrainTimeout)
	if err != nil {
		addInvalid(diags, path.Root("drain_timeout"), "Invalid duration", err)
	}
	return m.kind().spec(ctx, r.session, m, drain, diags)
}
