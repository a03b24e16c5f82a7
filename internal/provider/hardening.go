package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// validateHardening checks what holds between these settings, and between them
// and extra_args, as far as it is known.
func (m replicaModel) validateHardening(ctx context.Context, diags *diag.Diagnostics) {
	for attribute := range extraArgsComponents {
		validateLimits(ctx, m.Resources.Attributes()[attribute], path.Root("resources").AtName(attribute), diags)
	}
	if !elementsKnown(ctx, m.ExtraArgs) {
		return
	}
	extra := m.extraArgs(ctx, diags)[controlplane.APIServer]
	if elementsKnown(ctx, m.Audit) {
		if err := controlplane.ValidateAudit(m.audit(), extra); err != nil {
			addInvalid(diags, path.Root("audit"), "Invalid audit settings", err)
		}
	}
	if elementsKnown(ctx, m.Authentication) {
		if err := controlplane.ValidateAuthentication(m.authentication(ctx, diags), m.Version.ValueString(), extra); err != nil {
			addInvalid(diags, path.Root("authentication"), "Invalid authentication settings", err)
		}
	}
}

func validateLimits(ctx context.Context, value any, at path.Path, diags *diag.Diagnostics) {
	object, ok := value.(types.Object)
	if !ok || !elementsKnown(ctx, object) {
		return
	}
	if err := limitsOf(object).Validate(); err != nil {
		addInvalid(diags, at, "Invalid limits", err)
	}
}

func (m replicaModel) audit() controlplane.Audit {
	attributes := m.Audit.Attributes()
	enabled, set := attributes["enabled"].(types.Bool)
	policy, _ := attributes["policy"].(types.String)
	number := func(name string) int {
		n, _ := attributes[name].(types.Int64)
		return int(n.ValueInt64())
	}
	return controlplane.Audit{
		Off:        set && !enabled.IsNull() && !enabled.ValueBool(),
		Policy:     policy.ValueString(),
		MaxAgeDays: number("max_age_days"), MaxBackups: number("max_backups"), MaxSizeMB: number("max_size_mb"),
	}
}

func (m replicaModel) authentication(ctx context.Context, diags *diag.Diagnostics) controlplane.Authentication {
	attributes := m.Authentication.Attributes()
	jwt, _ := attributes["jwt"].(types.String)
	out := controlplane.Authentication{JWT: jwt.ValueString()}
	if paths, ok := attributes["anonymous_paths"].(types.Set); ok {
		out.AnonymousPaths = setOf(ctx, paths, diags)
	}
	return out
}

func (m replicaModel) limits() map[string]host.Limits {
	out := map[string]host.Limits{}
	for attribute, component := range extraArgsComponents {
		if object, ok := m.Resources.Attributes()[attribute].(types.Object); ok {
			out[component] = limitsOf(object)
		}
	}
	return out
}

// limitsOf reads the limits of one unit; null is none.
func limitsOf(object types.Object) host.Limits {
	text := func(name string) string {
		value, _ := object.Attributes()[name].(types.String)
		return value.ValueString()
	}
	return host.Limits{MemoryHigh: text("memory_high"), MemoryMax: text("memory_max"), CPUQuota: text("cpu_quota")}
}
