package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// dnsKind is a name with one address record for each ready replica.
type dnsKind struct{}

func (dnsKind) name() endpoint.Kind                    { return endpoint.DNS }
func (dnsKind) arguments(m endpointModel) types.Object { return m.DNS }
func (dnsKind) schema() schema.Attribute               { return dnsSchema() }
func (dnsKind) direct() bool                           { return true }
func (dnsKind) machinesAt() path.Path                  { return path.Root("dns").AtName("targets") }

func (dnsKind) validate(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	refuseCA(model, model.DNS, diags)
	arguments, known := model.dns(ctx, diags)
	if !known || !allKnown(model.Address) || diags.HasError() {
		return
	}
	zone := arguments.zone(ctx, diags)
	if diags.HasError() {
		return
	}
	address := model.Address.ValueString()
	if err := dns.ValidateZone(zone); err != nil {
		addInvalid(diags, path.Root("dns"), "Invalid zone", err)
	} else if err := dns.ValidateAddress(address, zone.Name); err != nil {
		addInvalid(diags, path.Root("address"), "Invalid endpoint address", err)
	}
	if err := dns.ValidateTargets(address, stringMapOf(ctx, arguments.Targets, diags)); err != nil {
		addInvalid(diags, path.Root("dns").AtName("targets"), "Invalid endpoint targets", err)
	}
}

func (dnsKind) checkChange(ctx context.Context, m, before endpointModel, diags *diag.Diagnostics) {
	m.refusePort(before, ownPort, "another kind", diags)
	m.warnZone(ctx, before, diags)
}

// warnZone warns about records that nobody maintains afterwards.
func (m endpointModel) warnZone(ctx context.Context, before endpointModel, diags *diag.Diagnostics) {
	after, known := m.dns(ctx, diags)
	was, knownBefore := before.dns(ctx, diags)
	if !known || !knownBefore || diags.HasError() {
		return
	}
	from, to := was.zone(ctx, diags), after.zone(ctx, diags)
	if from.Server == to.Server && from.Name == to.Name {
		return
	}
	diags.AddAttributeWarning(path.Root("dns").AtName("server"), "Records at the former name server stay",
		"Cause: the records move from "+from.Server+" (zone "+from.Name+") to "+to.Server+" (zone "+to.Name+") with one "+
			"replica after the other. After that, nothing changes the former ones: they go on naming a replica that has "+
			"gone. A replica that has to restart its API server in the same apply is refused.\nNext step: let clients ask "+
			"the new server when the apply has ended, and not before, then delete the former records.")
}

func (dnsKind) register(
	ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics,
) bool {
	arguments, known := m.dns(ctx, diags)
	if !known {
		return false
	}
	zone := arguments.zone(ctx, diags)
	to.Kind, to.TargetPort = types.StringValue(string(endpoint.DNS)), m.Port
	to.Hosts, to.ProbeFrom = arguments.Targets, arguments.ProbeFrom
	to.Zone = zoneObject(ctx, &zone, diags)
	return true
}

func (dnsKind) spec(
	ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics,
) endpointSpec {
	model, _ := m.dns(ctx, diags)
	return newDNSEndpoint(s.registrars.dns, dns.Spec{
		ClusterID: m.bundle.ClusterID, Address: m.Address.ValueString(), Port: int(m.Port.ValueInt64()),
		Targets: stringMapOf(ctx, model.Targets, diags), Zone: model.zone(ctx, diags), DrainTimeout: drain,
		ProbeFrom: model.ProbeFrom.ValueString(),
	})
}

func (dnsKind) validateRegistration(r endpoint.Registration) error { return dns.Validate(r) }

func (dnsKind) registrar(r registrars, at endpoint.Registration) registrar { return r.dns.For(at) }

func (dnsKind) recorded(r registrars, at endpoint.Registration, cluster string) registrar {
	return r.dns.ForRecorded(at, cluster)
}

func (dnsKind) health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint {
	return health.OfTargets(at, r.dns.For(at).Health(ctx))
}

func newDNSEndpoint(e *dns.Endpoints, s dns.Spec) endpointSpec {
	return targetsEndpoint[dns.Spec]{e, s, func(
		ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
	) error {
		return e.Delete(ctx, s, s.DrainTimeout+s.Zone.TTL+wait, superseded, func(why string) { alone(problem.Block(why)) })
	}}
}

// importArguments sets the attribute dns.
func (dnsKind) importArguments(i importer, registration endpoint.Registration) {
	zone := registration.Zone
	i.set("dns.targets", registration.Hosts)
	i.set("dns.zone", zone.Name)
	i.set("dns.server", dns.WithoutDefaultPort(zone.Server))
	if len(zone.NameServers) > 0 {
		var servers []string
		for _, server := range zone.NameServers {
			servers = append(servers, dns.WithoutDefaultPort(server))
		}
		i.set("dns.name_servers", servers)
	}
	i.set("dns.tsig_key", zone.TSIGKey)
	i.set("dns.ttl", durationText(zone.TTL))
	i.set("dns.check_interval", durationText(zone.CheckInterval))
	i.set("dns.check_threshold", int64(zone.CheckThreshold))
	i.set("dns.install_packages", zone.InstallPackages)
	i.set("dns.probe_from", stringOrNull(registration.ProbeFrom))
}
