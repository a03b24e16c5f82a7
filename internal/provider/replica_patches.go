package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// patchesModel is the attribute patches of a replica.
type patchesModel struct {
	APIServer         *string `tfsdk:"apiserver"`
	ControllerManager *string `tfsdk:"controller_manager"`
	Scheduler         *string `tfsdk:"scheduler"`
}

// patchesSchema describes the patches of the static pods.
func patchesSchema() schema.Attribute {
	components := map[string]schema.Attribute{}
	for attribute, name := range extraArgsComponents {
		components[attribute] = schema.StringAttribute{
			Optional: true, MarkdownDescription: "Patch of " + name + ", in YAML or JSON. Default: none.",
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Strategic merge patches of the manifests for `runtime = \"static_pod\"`, as files " +
			"`kube-apiserver+strategic.yaml` and so on of kubeadm's patches. See " +
			"[Patches](../guides/static-pods.md#patches). Default: none. A change restarts the component; for the API " +
			"server, the replica leaves rotation during the restart, one replica at a time.",
		Attributes: components,
	}
}

// patches returns the patch of each component that has one; nil if there are none.
func (m replicaModel) patches() map[string]string {
	var all map[string]string
	for attribute, name := range extraArgsComponents {
		patch, ok := m.Patches.Attributes()[attribute].(types.String)
		if !ok || patch.ValueString() == "" {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = patch.ValueString()
	}
	return all
}

// observedPatches returns the patches as an argument, nil if there are none.
func observedPatches(observed map[string]string) *patchesModel {
	if len(observed) == 0 {
		return nil
	}
	of := func(name string) *string {
		if patch, ok := observed[name]; ok {
			return &patch
		}
		return nil
	}
	return &patchesModel{of(release.APIServer), of(release.ControllerManager), of(release.Scheduler)}
}

// validatePatches refuses what an import could not tell from no argument, and patches of units.
func (m replicaModel) validatePatches(ctx context.Context, diags *diag.Diagnostics) {
	at := path.Root("patches")
	switch {
	case m.Patches.IsNull() || m.Patches.IsUnknown():
	case !m.Runtime.IsUnknown() && !m.isStaticPod():
		addInvalid(diags, at, "Invalid runtime", errors.New(`only static pods have manifests: set runtime = "static_pod", `+
			"or drop patches"))
	case elementsKnown(ctx, m.Patches) && len(m.patches()) == 0:
		addInvalid(diags, at, "Invalid patches", errors.New("it is empty: set a patch, or remove the argument"))
	}
}
