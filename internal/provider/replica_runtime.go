package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// runtime returns Replica.Runtime.
func (m replicaModel) runtime() string {
	if m.Runtime.ValueString() == component.Systemd {
		return ""
	}
	return m.Runtime.ValueString()
}

// isStaticPod reports whether the components are static pods.
func (m replicaModel) isStaticPod() bool { return m.Runtime.ValueString() == component.StaticPod }

// validateRuntime refuses what the runtime cannot do. Unknown values are checked by the apply.
func (m replicaModel) validateRuntime(ctx context.Context, diags *diag.Diagnostics) {
	if m.Runtime.IsUnknown() {
		return
	}
	validateInstallKubelet(m.InstallKubelet, m.isStaticPod(), diags)
	if !m.isStaticPod() {
		if !m.ImageRepository.IsNull() {
			addInvalid(diags, path.Root("image_repository"), "Invalid runtime",
				errors.New(`only static pods have images: set runtime = "static_pod", or drop image_repository`))
		}
		if m.ManageKubelet.ValueBool() {
			addInvalid(diags, path.Root("manage_kubelet"), "Invalid runtime",
				errors.New(`only static pods need a kubelet: set runtime = "static_pod", or drop manage_kubelet`))
		}
		if elementsKnown(ctx, m.ExtraArgs) {
			if err := unit.ValidateAuditLog(m.extraArgs(ctx, diags)[release.APIServer]); err != nil {
				addInvalid(diags, path.Root("extra_args").AtName("apiserver"), "Invalid runtime", err)
			}
		}
		return
	}
	s := component.Replica{
		Runtime: component.StaticPod, ImageRepository: m.ImageRepository.ValueString(), Konnectivity: m.konnectivity(ctx),
		SupplementaryGroups: m.groups(ctx), ExtraVolumes: m.extraVolumes(ctx), Patches: m.patches(),
	}
	if elementsKnown(ctx, m.ExtraVolumes) && elementsKnown(ctx, m.ExtraArgs) && elementsKnown(ctx, m.RepeatedArgs) {
		s.ExtraArgs = m.extraArgs(ctx, diags)
	}
	if elementsKnown(ctx, m.Resources) {
		s.Limits = m.limits(ctx)
	}
	var refused *problem.Problem
	if err := pod.Validate(s); errors.As(err, &refused) {
		addInvalid(diags, path.Root(refused.Attribute), "Invalid runtime", refused.Err)
	}
}

// planRuntime says what changes hands when the components of an existing replica move to another runtime.
func (m replicaModel) planRuntime(before replicaModel, diags *diag.Diagnostics) {
	if m.Runtime.IsUnknown() || m.runtime() == before.runtime() {
		return
	}
	from, to := cmp.Or(before.runtime(), component.Systemd), cmp.Or(m.runtime(), component.Systemd)
	runtimeChange{
		title: "Replica", label: m.label(), product: "Kubernetes", from: from, to: to,
		before: before.Version, version: m.Version,
		steps: fmt.Sprintf("The components stop as %s and start as %s, one replica at a time: drained, and back in rotation "+
			"when ready. There is no rollback.\n%s", from, to, replicaHandedOver[to]),
	}.plan(diags)
}

// replicaHandedOver says what changes hands on the machine of a replica that moves to a runtime.
var replicaHandedOver = map[string]string{
	component.StaticPod: "The units and their drop-ins are removed. Root runs the pods: keys and kubeconfigs of the " +
		"components are issued anew for root. The users of the units stay until the replica is destroyed. Manifests of " +
		"kubeadm that were kept in " + pod.Inherited + " are used again, byte for byte, if they say what the " +
		"configuration does.",
	component.Systemd: "The manifests are removed from the kubelet's directory; those that kubeadm has written are kept " +
		"in " + pod.Inherited + ". Keys and kubeconfigs of the components are issued anew for the users of the units, " +
		"and the audit log is given to the user of the API server.",
}
