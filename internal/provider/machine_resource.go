package provider

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// machineResource is the CRUD frame of the resources on machines: etcd members, replicas and
// endpoints. It decodes plan and state once, opens the bundle, makes one call into a domain
// package and encodes the result. M is the resource's model. S and T are the spec and the
// status of the domain package. Each resource has its own ModifyPlan.
type machineResource[M any, P modelPointer[M, T], S, T any] struct {
	configured
	kindConstants
	domain machineDomain[M, S, T]
}

// kindConstants are the constants of one kind of resource.
type kindConstants struct {
	kind           string        // type name in Terraform
	noun           string        // first word of a diagnostic
	create, update time.Duration // default timeouts
	gone, adopted  error         // errors of the domain package
	mutable        bool          // its identity may change in place: it moves to another machine
}

// modelPointer is a pointer to a resource's model.
type modelPointer[M, T any] interface {
	*M
	bundleModel
	name() string
	label() string         // name in a diagnostic
	address() types.String // of the identity
	at() path.Path         // the attribute that names the machines, for diagnostics
	derive(ctx context.Context, diags *diag.Diagnostics)
	affectsMachine(ctx context.Context, before M, s *session) bool
	fill(status T)
	keepPlanned(plan M) // keeps what the plan has set
}

// writeOnlyModel is a model with values that only the configuration contains. They are taken
// from it when it is applied.
type writeOnlyModel interface {
	takeWriteOnly(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics)
}

func takeWriteOnly(ctx context.Context, m any, config tfsdk.Config, diags *diag.Diagnostics) {
	if has, ok := m.(writeOnlyModel); ok && !diags.HasError() {
		has.takeWriteOnly(ctx, config, diags)
	}
}

// machineDomain has the operations of a resource's domain package.
type machineDomain[M, S, T any] interface {
	spec(ctx context.Context, m M, diags *diag.Diagnostics) S
	identities(S) []string // a Create and a Delete with one in common are of the same object
	priorObject(ctx context.Context, m M) priorObject
	createOn(ctx context.Context, s S) (T, error)
	readFrom(ctx context.Context, s S, diags *diag.Diagnostics) (T, error)
	updateOn(ctx context.Context, before, after M, s S, diags *diag.Diagnostics) (T, error)
	deleteFrom(ctx context.Context, s S, superseded func() bool, diags *diag.Diagnostics) error
}

// Metadata sets the type name.
func (r *machineResource[M, P, S, T]) Metadata(
	_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse,
) {
	resp.TypeName = r.kind
	resp.ResourceBehavior.MutableIdentity = r.mutable
}

// describe returns the spec of a model after opening its bundle with open.
func (r *machineResource[M, P, S, T]) describe(
	ctx context.Context, m P, open func(context.Context, bundleModel, *diag.Diagnostics), diags *diag.Diagnostics,
) S {
	var none S
	if diags.HasError() || !r.connected(diags) {
		return none
	}
	open(ctx, m, diags)
	if m.shared().bundle == nil && !diags.HasError() {
		addUnknownSettings(diags)
	}
	if diags.HasError() {
		return none
	}
	m.derive(ctx, diags)
	return r.domain.spec(ctx, *m, diags)
}

// readTimeout is the default timeout of a Read.
const readTimeout = time.Minute

// decodePlan reads the models of a plan and opens their bundles. plan is nil if the resource is
// destroyed, state if it is new. A plan may wait for the machine as long as a Read.
func (r *machineResource[M, P, S, T]) decodePlan(
	ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics,
) (plan, state P) {
	if !req.State.Raw.IsNull() {
		state = new(M)
		diags.Append(req.State.Get(ctx, state)...)
		state.shared().bundle = r.session.prior(state.shared().PKI)
		state.shared().newID = isSet(ctx, req.Private, newIDKey, diags)
		state.shared().newMachine = isSet(ctx, req.Private, newMachineKey, diags)
	}
	if !req.Plan.Raw.IsNull() {
		plan = new(M)
		diags.Append(req.Plan.Get(ctx, plan)...)
		timeout, more := plan.shared().Timeouts.Read(ctx, readTimeout)
		diags.Append(more...)
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		r.session.openChecked(limited, plan, diags)
	}
	return plan, state
}

// The private-state keys that record what the next update changes.
const (
	newIDKey      = "new_id"
	newMachineKey = "new_machine"
)

// keepSet records in the private state whether a key is set. It writes nothing if nothing changes: Terraform treats a
// difference of the private state as a change of the resource.
func keepSet(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse, key string, set bool) {
	if set != isSet(ctx, req.Private, key, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, key, strconv.AppendBool(nil, set))...)
	}
}

// isSet reports whether keepSet has recorded that a key is set.
func isSet(ctx context.Context, private privateState, key string, diags *diag.Diagnostics) bool {
	text, more := private.GetKey(ctx, key)
	diags.Append(more...)
	return string(text) == "true"
}

// planBundle replaces a resource that gets the bundle of another cluster, or rejects the
// change.
func (r *machineResource[M, P, S, T]) planBundle(
	ctx context.Context, plan, state P, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	before, after := state.shared(), plan.shared().bundle
	r.session.refuseOtherCluster(ctx, before.PKI, after, req.Private, &resp.Diagnostics)
	r.session.refuseLostBundle(ctx, before.PKI, plan.shared().PKI, req.Private, &resp.Diagnostics)
	if otherCluster(before.bundle, after) {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("pki"))
	}
}

// Create creates or adopts what the plan describes.
func (r *machineResource[M, P, S, T]) Create(
	ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse,
) {
	var model M
	m := P(&model)
	resp.Diagnostics.Append(req.Plan.Get(ctx, m)...)
	takeWriteOnly(ctx, m, req.Config, &resp.Diagnostics)
	timeout, diags := m.shared().Timeouts.Create(ctx, r.create)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := operation(ctx, timeout, r.kind, m.name())
	defer cancel()
	spec := r.describe(ctx, m, r.session.openChecked, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.session.begin()
	r.session.adoptions.record(r.domain.identities(spec)...)
	status, err := r.domain.createOn(ctx, spec)
	m.fill(status)
	if err != nil {
		addError(&resp.Diagnostics, m.at(), r.noun+" not created", err)
		// An object that served before must not be tainted: the next apply would remove it.
		if r.adopted == nil || !errors.Is(err, r.adopted) {
			keepPartial(ctx, resp, model, err)
		}
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, m.address(), &resp.Diagnostics)
}

// Read observes the machines.
func (r *machineResource[M, P, S, T]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model M
	m := P(&model)
	resp.Diagnostics.Append(req.State.Get(ctx, m)...)
	timeout, diags := m.shared().Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(diags...)
	identify(ctx, resp.Identity, m.address(), &resp.Diagnostics)
	if !r.session.restoreBundle(ctx, &m.shared().PKI, req.Private, m.label(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := operation(ctx, timeout, r.kind, m.name())
	defer cancel()
	spec := r.describe(ctx, m, r.session.open, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := m.shared().unread; err != nil { // without its certificates, nobody else can be asked either
		reportUnread(&resp.Diagnostics, m.at(), m.label(), err)
		return
	}
	status, err := r.domain.readFrom(ctx, spec, &resp.Diagnostics)
	if errors.Is(err, r.gone) {
		warnGone(&resp.Diagnostics, err)
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		reportUnread(&resp.Diagnostics, m.at(), m.label(), err)
		return
	}
	m.fill(status)
	keepSet(ctx, req, resp, newIDKey, m.shared().newID)
	keepSet(ctx, req, resp, newMachineKey, m.shared().newMachine)
	r.session.disruption().Observed(r.domain.priorObject(ctx, model))
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// Update changes the machines if the change affects more than the state.
func (r *machineResource[M, P, S, T]) Update(
	ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse,
) {
	var model, prior M
	m := P(&model)
	resp.Diagnostics.Append(req.Plan.Get(ctx, m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	takeWriteOnly(ctx, m, req.Config, &resp.Diagnostics)
	timeout, diags := m.shared().Timeouts.Update(ctx, r.update)
	resp.Diagnostics.Append(diags...)
	limited, cancel := operation(ctx, timeout, r.kind, m.name()) // not of the maintenance
	defer cancel()
	spec := r.describe(limited, m, r.session.openChecked, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	P(&prior).shared().bundle = r.session.prior(P(&prior).shared().PKI)
	if m.affectsMachine(ctx, prior, r.session) {
		r.session.begin()
		status, err := r.domain.updateOn(limited, prior, model, spec, &resp.Diagnostics)
		if err != nil {
			addError(&resp.Diagnostics, m.at(), r.noun+" not changed", err)
		}
		if resp.Diagnostics.HasError() {
			return
		}
		plan := model
		m.fill(status)
		warnDrift(&resp.Diagnostics, m.label(), stringsOf(ctx, m.shared().Drift, &resp.Diagnostics), m.shared().remedy)
		m.keepPlanned(plan)
	}
	if r.maintain(ctx, prior, model, spec, &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	identify(ctx, resp.Identity, m.address(), &resp.Diagnostics)
}

// Delete removes the resource unless a Create of the same run has claimed it.
func (r *machineResource[M, P, S, T]) Delete(
	ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse,
) {
	var model M
	m := P(&model)
	resp.Diagnostics.Append(req.State.Get(ctx, m)...)
	timeout, diags := m.shared().Timeouts.Delete(ctx, 10*time.Minute)
	resp.Diagnostics.Append(diags...)
	if m.shared().PKI.IsNull() {
		refuseWithoutBundle(r.noun, &resp.Diagnostics)
	}
	ctx, cancel := operation(ctx, timeout, r.kind, m.name())
	defer cancel()
	spec := r.describe(ctx, m, r.session.open, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	r.session.begin()
	superseded := r.session.adoptions.superseded(r.domain.identities(spec)...)
	if err := r.domain.deleteFrom(ctx, spec, superseded, &resp.Diagnostics); err != nil {
		addError(&resp.Diagnostics, m.at(), r.noun+" not deleted", err)
	}
}
