package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// kubeVIPKind is an address that one machine of a replica has, or that all announce, by kube-vip.
type kubeVIPKind struct{}

func (kubeVIPKind) name() endpoint.Kind                    { return endpoint.KubeVIP }
func (kubeVIPKind) arguments(m endpointModel) types.Object { return m.KubeVIP }
func (kubeVIPKind) schema() schema.Attribute               { return kubeVIPSchema() }
func (kubeVIPKind) direct() bool                           { return true }
func (kubeVIPKind) machinesAt() path.Path                  { return path.Root("kube_vip").AtName("targets") }

func (kubeVIPKind) validate(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.KubeVIP, diags)
	arguments, known := model.kubeVIP(ctx, diags)
	if !known || !allKnown(model.Address) || model.Port.IsUnknown() || diags.HasError() {
		return
	}
	spec := arguments.spec(ctx, diags)
	spec.Address, spec.Port = model.Address.ValueString(), int(model.Port.ValueInt64()) // 0 is the default
	if diags.HasError() {
		return
	}
	if err := kubevip.ValidateRegistration(spec.Registration()); err != nil {
		addInvalid(diags, path.Root("kube_vip"), "Invalid endpoint", err)
	}
}

func (kubeVIPKind) checkChange(_ context.Context, m, before endpointModel, diags *diag.Diagnostics) {
	m.refusePort(before, ownPort, "another kind", diags)
}

func (kubeVIPKind) register(
	ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics,
) bool {
	arguments, known := m.kubeVIP(ctx, diags)
	if !known {
		return false
	}
	spec := arguments.spec(ctx, diags).Registration()
	to.Kind, to.TargetPort = types.StringValue(string(endpoint.KubeVIP)), m.Port
	to.Hosts = arguments.Targets
	to.KubeVIP = electionObject(ctx, spec.KubeVIP, diags)
	to.BGP = announcementObject(ctx, spec.BGP, diags)
	return true
}

func (kubeVIPKind) spec(
	ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics,
) endpointSpec {
	model, _ := m.kubeVIP(ctx, diags)
	spec := model.spec(ctx, diags)
	spec.ClusterID, spec.Address, spec.Port = m.bundle.ClusterID, m.Address.ValueString(), int(m.Port.ValueInt64())
	spec.DrainTimeout = drain
	return newKubeVIPEndpoint(s.registrars.kubeVIP, spec)
}

func (kubeVIPKind) validateRegistration(r endpoint.Registration) error {
	return kubevip.ValidateRegistration(r)
}

func (kubeVIPKind) registrar(r registrars, at endpoint.Registration) registrar {
	return r.kubeVIP.For(at)
}

func (kubeVIPKind) recorded(r registrars, at endpoint.Registration, _ string) registrar {
	return r.kubeVIP.ForRecorded(at)
}

func (kubeVIPKind) health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint {
	observed := health.OfTargets(at, r.kubeVIP.For(at).Health(ctx))
	observed.Announced = at.BGP != nil
	return observed
}

func newKubeVIPEndpoint(e *kubevip.Endpoints, s kubevip.Spec) endpointSpec {
	return targetsEndpoint[kubevip.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, _ func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.LeaseDuration+s.Announcement.Propagation+wait, superseded)
	}}
}

// importArguments sets the attribute kube_vip.
func (kubeVIPKind) importArguments(i importer, registration endpoint.Registration) {
	election := registration.KubeVIP
	i.set("kube_vip.targets", registration.Hosts)
	i.set("kube_vip.mode", election.Mode)
	i.set("kube_vip.interface", stringOrNull(election.Interface))
	i.set("kube_vip.program", election.Program)
	i.set("kube_vip.sha256", stringOrNull(election.SHA256))
	i.set("kube_vip.lease_name", stringOrNull(election.LeaseName))
	i.set("kube_vip.lease_duration", durationText(election.LeaseDuration))
	if announced := registration.BGP; announced != nil {
		i.set("kube_vip.asn", int64(announced.ASN))
		i.set("kube_vip.peers", peerModels(announced.Peers))
		i.set("kube_vip.hold_time", durationText(announced.HoldTime))
		i.set("kube_vip.propagation_time", durationText(announced.Propagation))
	}
}
