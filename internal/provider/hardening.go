package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// validateHardening checks the rules between these settings, and between them and extra_args,
// as far as their values are known.
func (m replicaModel) validateHardening(ctx context.Context, diags *diag.Diagnostics) {
	for attribute := range extraArgsComponents {
		validateLimits(ctx, m.Resources.Attributes()[attribute], path.Root("resources").AtName(attribute), diags)
	}
	if !elementsKnown(ctx, m.ExtraArgs) {
		return
	}
	extra := m.extraArgs(ctx, diags)[release.APIServer]
	if elementsKnown(ctx, m.Audit) {
		if err := component.ValidateAudit(m.audit(ctx), extra); err != nil {
			addInvalid(diags, path.Root("audit"), "Invalid audit settings", err)
		}
	}
	if elementsKnown(ctx, m.Authentication) {
		if err := component.ValidateAuthentication(m.authentication(ctx), m.Version.ValueString(), extra); err != nil {
			addInvalid(diags, path.Root("authentication"), "Invalid authentication settings", err)
		}
	}
}

func validateLimits(ctx context.Context, value any, at path.Path, diags *diag.Diagnostics) {
	object, ok := value.(types.Object)
	if !ok || !elementsKnown(ctx, object) {
		return
	}
	if err := limitsOf(ctx, object).Validate(); err != nil {
		addInvalid(diags, at, "Invalid limits", err)
	}
}

func (m replicaModel) audit(ctx context.Context) component.Audit {
	return decodeObject[auditModel](ctx, m.Audit).audit()
}

func (m replicaModel) authentication(ctx context.Context) component.Authentication {
	return decodeObject[authenticationModel](ctx, m.Authentication).authentication()
}

func (m replicaModel) limits(ctx context.Context) map[string]component.Limits {
	return decodeObject[resourcesModel](ctx, m.Resources).limits()
}

// groups returns the supplementary groups of the API server. Null is nil.
func (m replicaModel) groups(ctx context.Context) []string {
	var ignored diag.Diagnostics // decoding for the machine reports the same diagnostics
	if !elementsKnown(ctx, m.Groups) {
		return nil
	}
	return stringsOf(ctx, m.Groups, &ignored)
}

// limitsOf decodes the limits of one unit. Null means no limits.
func limitsOf(ctx context.Context, object types.Object) systemd.Limits {
	return decodeObject[limitsModel](ctx, object).limits()
}
