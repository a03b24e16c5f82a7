package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
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
	if !m.isStaticPod() {
		if !m.ImageRepository.IsNull() {
			addInvalid(diags, path.Root("image_repository"), "Invalid runtime",
				errors.New(`only static pods have images: set runtime = "static_pod", or drop image_repository`))
		}
		return
	}
	if m.Liveness.ValueBool() {
		addInvalid(diags, path.Root("liveness_probe"), "Invalid runtime",
			errors.New("the kubelet probes static pods: drop liveness_probe"))
	}
	s := component.Replica{
		Runtime: component.StaticPod, ImageRepository: m.ImageRepository.ValueString(), Konnectivity: m.konnectivity(ctx),
		SupplementaryGroups: m.groups(ctx), TextfileDirectory: textfileDirectory(m.Metrics),
		ExtraVolumes: m.extraVolumes(ctx),
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

// refuseOtherRuntime refuses to move the components of a replica that exists.
func (m replicaModel) refuseOtherRuntime(before replicaModel, diags *diag.Diagnostics) {
	if m.Runtime.IsUnknown() || m.runtime() == before.runtime() {
		return
	}
	name := func(m replicaModel) string {
		if m.isStaticPod() {
			return component.StaticPod
		}
		return component.Systemd
	}
	addError(diags, path.Root("runtime"), "Runtime cannot be changed", &problem.Problem{
		Summary: "Runtime cannot be changed", Unchanged: problem.Nothing,
		Cause: fmt.Sprintf("the components of replica %q run by %s, and would be moved to %s in place", m.name(),
			name(before), name(m)),
		Next: fmt.Sprintf("set runtime = %q; to move the control plane, create replicas with the other runtime on other "+
			"machines, then remove this one.", name(before)),
	})
}
