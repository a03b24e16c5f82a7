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

// machineModel has the attributes that all resources on machines share. It also has the decoded
// bundle of pki, which is opened once and passed on.
type machineModel struct {
	ID           types.String   `tfsdk:"id"`
	PKI          types.String   `tfsdk:"pki"`
	ConfigDigest types.String   `tfsdk:"config_digest"`
	Drift        types.List     `tfsdk:"drift"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	bundle *pki.Bundle // nil until it is opened, and while pki or the provider's seal is unknown
	unread error       // why the machine was not asked for the certificates that the bundle cannot issue
	remedy string      // next step for drift that no update can repair
	newID  bool        // the next update changes the ID

	newMachine bool // the machine is another one than that of the state, which the next update changes
}

func (m *machineModel) shared() *machineModel { return m }

// rotated reports whether any of parts differs between the bundles of before and m, or one of
// the bundles cannot be read yet. Sealing the same keys in another way is no difference.
func (m *machineModel) rotated(before *machineModel, parts ...pki.Part) bool {
	if before.PKI.Equal(m.PKI) {
		return false
	}
	return before.bundle == nil || m.bundle == nil || !before.bundle.Same(m.bundle, parts...)
}

// renamed reports whether the cluster of m has got another name.
func (m *machineModel) renamed(before *machineModel) bool { return before.bundle.Renamed(m.bundle) }

// planned returns the planned value, or the observed one if the plan left it unknown.
func planned[V attr.Value](promised, observed V) V {
	if promised.IsUnknown() {
		return observed
	}
	return promised
}

// noDrift is the drift that an update plans.
func noDrift() types.List { return stringList(nil) }

// otherCluster reports whether a bundle changes to the bundle of another cluster.
func otherCluster(before, after *pki.Bundle) bool {
	return before != nil && after != nil && before.ClusterID != after.ClusterID
}

// signature describes what a resource's signed attribute is for.
type signature struct {
	value  types.Object
	leaves []pki.Leaf   // the resource's certificates; nil while they are unknown
	at     types.String // address of the machine that has them; null for none
}

// bundleModel is a model with a bundle to open.
type bundleModel interface {
	shared() *machineModel
	signature(ctx context.Context) signature
}

// open opens the bundle of a model and adds what was signed for the model. An unknown bundle
// stays nil.
func (s *session) open(ctx context.Context, m bundleModel, diags *diag.Diagnostics) {
	shared, signed := m.shared(), m.signature(ctx)
	shared.bundle, shared.unread = s.bundleWith(ctx, shared.PKI, signed.value, signed.leaves, signed.at, diags)
}

// openChecked is open for a spec that is about to be applied. It rejects a bundle if one of the
// required certificates cannot be obtained.
func (s *session) openChecked(ctx context.Context, m bundleModel, diags *diag.Diagnostics) {
	shared, signed := m.shared(), m.signature(ctx)
	shared.bundle = s.bundle(shared.PKI, diags)
	s.checkSigned(ctx, shared.bundle, signed.value, signed.leaves, signed.at, time.Now(), diags)
}

// prior returns the bundle of a state. A bundle that cannot be read is nil.
func (s *session) prior(value types.String) *pki.Bundle {
	var ignored diag.Diagnostics
	return s.bundle(value, &ignored)
}
