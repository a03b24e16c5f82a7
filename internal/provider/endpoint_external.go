package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// externalKind is an address that others look after.
type externalKind struct{}

func (externalKind) name() endpoint.Kind                    { return endpoint.External }
func (externalKind) arguments(m endpointModel) types.Object { return m.External }
func (externalKind) schema() schema.Attribute               { return externalSchema() }
func (externalKind) direct() bool                           { return false }
func (externalKind) machinesAt() path.Path                  { return path.Root("external").AtName("targets") }

func (externalKind) validate(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.External, diags)
	arguments := model.external(ctx, diags)
	if allKnown(arguments.HealthCheck) && elementsKnown(ctx, arguments.HealthCheck) {
		if err := external.ValidateHealthCheck(arguments.healthCheck(ctx, diags)); err != nil {
			addInvalid(diags, path.Root("external").AtName("health_check"), "Invalid health check", err)
		}
	}
	if diags.HasError() || !allKnown(model.Address, arguments.Targets) || !elementsKnown(ctx, arguments.Targets) {
		return
	}
	wanted := stringMapOf(ctx, arguments.Targets, diags)
	if err := targets.Validate(model.Address.ValueString(), wanted); err != nil {
		addInvalid(diags, path.Root("external").AtName("targets"), "Invalid endpoint targets", err)
	}
}

func (externalKind) checkChange(ctx context.Context, m, before endpointModel, diags *diag.Diagnostics) {
	m.warnSlowerCheck(ctx, before, diags)
}

// warnSlowerCheck warns about a balancer that is told of a slower check before the API servers wait longer for it.
func (m endpointModel) warnSlowerCheck(ctx context.Context, before endpointModel, diags *diag.Diagnostics) {
	after, was := m.external(ctx, diags), before.external(ctx, diags)
	if !after.known(ctx) || !was.known(ctx) || diags.HasError() {
		return
	}
	now, then := after.healthCheck(ctx, diags).DetectionTime(), was.healthCheck(ctx, diags).DetectionTime()
	if now <= then || len(hooksOf(ctx, was.Hooks, diags).Drain) > 0 {
		return
	}
	diags.AddAttributeWarning(path.Root("external").AtName("health_check"), "The balancer's check becomes slower",
		"Cause: an API server that stops goes on serving until the balancer has noticed. Those that run now wait "+
			then.String()+", and "+now.String()+" only after this apply has restarted them.\nNext step: change the "+
			"balancer's check after this apply, not in it.")
}

func (externalKind) register(
	ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics,
) bool {
	arguments := m.external(ctx, diags)
	if !arguments.known(ctx) {
		return false
	}
	spec := arguments.spec(ctx, diags)
	to.Kind = types.StringValue(string(endpoint.External))
	to.Hosts, to.TargetPort = arguments.Targets, arguments.TargetPort
	to.DetectionTime = durationText(spec.HealthCheck.DetectionTime())
	to.HealthyTime = durationText(spec.HealthCheck.HealthyTime())
	to.ProbeFrom, to.Hooks = arguments.ProbeFrom, arguments.Hooks
	return true
}

func (externalKind) spec(
	ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics,
) endpointSpec {
	spec := m.external(ctx, diags).spec(ctx, diags)
	spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
	spec.DrainTimeout = drain
	return newExternalEndpoint(s.registrars.external, spec)
}

func (externalKind) validateRegistration(r endpoint.Registration) error {
	return external.ValidateRegistration(r)
}

func (externalKind) registrar(r registrars, at endpoint.Registration) registrar {
	return r.external.For(at)
}

func (externalKind) recorded(r registrars, at endpoint.Registration, _ string) registrar {
	if hooks, ok := r.hooks.Load(endpointID(at)); ok {
		at.Hooks, _ = hooks.(endpoint.Hooks)
		at.HasHooks = at.Hooks.Any()
	}
	return r.external.For(at)
}

func (externalKind) health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint {
	return health.OfTargets(at, r.external.For(at).Health(ctx))
}

func newExternalEndpoint(e *external.Endpoints, s external.Spec) endpointSpec {
	return targetsEndpoint[external.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+wait, superseded)
	}}
}

// importArguments sets the attribute external. The interval and the thresholds are not known, only their products.
func (externalKind) importArguments(i importer, registration endpoint.Registration) {
	i.set("external.targets", registration.Hosts)
	i.set("external.target_port", int64(registration.TargetPort))
	i.set("external.probe_from", stringOrNull(registration.ProbeFrom))
	check := external.HealthCheckOf(registration, defaultCheckThreshold)
	i.set("external.health_check.interval", durationText(check.Interval))
	i.set("external.health_check.threshold", int64(check.Threshold))
	i.set("external.health_check.healthy_threshold", intOrNull(check.Healthy))
}
