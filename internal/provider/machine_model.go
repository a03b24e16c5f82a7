package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// machineModel has the attributes that all resources on machines share, and the
// bundle that pki holds, so that it is opened once and passed on.
type machineModel struct {
	ID           types.String   `tfsdk:"id"`
	PKI          types.String   `tfsdk:"pki"`
	ConfigDigest types.String   `tfsdk:"config_digest"`
	Drift        types.List     `tfsdk:"drift"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	bundle *pki.Bundle // nil until it is opened, and while pki or the provider's seal is not known
	remedy string      // next step for drift that no update can repair
	newID  bool        // the next update gives it another id
}

func (m *machineModel) shared() *machineModel { return m }

// rotated reports whether any of parts differs between the bundles of before and m,
// or one of them cannot be read yet. Another way of sealing the same keys is no
// difference.
func (m *machineModel) rotated(before *machineModel, parts ...pki.Part) bool {
	if before.PKI.Equal(m.PKI) {
		return false
	}
	return before.bundle == nil || m.bundle == nil || !before.bundle.Same(m.bundle, parts...)
}

// planned is what a plan has promised, or what was found where it has promised nothing.
func planned[V attr.Value](promised, found V) V {
	if promised.IsUnknown() {
		return found
	}
	return promised
}

// noDrift is what an update plans.
func noDrift() types.List { return stringList(nil) }

// otherCluster reports whether a bundle changes to that of another cluster.
func otherCluster(before, after *pki.Bundle) bool {
	return before != nil && after != nil && before.ClusterID != after.ClusterID
}

// signature is what a resource's signed attribute is for.
type signature struct {
	value  types.Object
	leaves []pki.Leaf   // the resource's certificates; nil while it is not known which
	at     types.String // address of the machine that has them; null for none
}

// bundleModel is a model with a bundle to be opened.
type bundleModel interface {
	shared() *machineModel
	signature(ctx context.Context) signature
}

// open opens the bundle of a model and puts into it what was signed for the model.
// An unknown bundle stays nil.
func (s *session) open(ctx context.Context, m bundleModel, diags *diag.Diagnostics) {
	shared, signed := m.shared(), m.signature(ctx)
	shared.bundle = s.bundleWith(ctx, shared.PKI, signed.value, signed.leaves, signed.at, diags)
}

// openChecked is open for a description that is about to be applied: it refuses a
// bundle some of whose certificates cannot be had.
func (s *session) openChecked(ctx context.Context, m bundleModel, diags *diag.Diagnostics) {
	shared, signed := m.shared(), m.signature(ctx)
	shared.bundle = s.bundle(shared.PKI, diags)
	s.checkSigned(ctx, shared.bundle, signed.value, signed.leaves, signed.at, time.Now(), diags)
}

// prior is the bundle of a state. One that cannot be read says nothing.
func (s *session) prior(value types.String) *pki.Bundle {
	var ignored diag.Diagnostics
	return s.bundle(value, &ignored)
}
