package provider

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// haproxyKind is a virtual IP in front of HAProxy. A registration without a kind is of this one.
type haproxyKind struct{}

func (haproxyKind) name() endpoint.Kind                    { return endpoint.HAProxy }
func (haproxyKind) arguments(m endpointModel) types.Object { return m.HAProxy }
func (haproxyKind) schema() schema.Attribute               { return haproxySchema() }
func (haproxyKind) direct() bool                           { return false }
func (haproxyKind) machinesAt() path.Path                  { return path.Root("haproxy").AtName("hosts") }

func (haproxyKind) validate(ctx context.Context, model endpointModel, diags *diag.Diagnostics) {
	if !allKnown(model.Address) {
		return
	}
	if err := haproxy.ValidateAddress(model.Address.ValueString()); err != nil {
		addInvalid(diags, path.Root("address"), "Invalid endpoint address", err)
		return
	}
	balancers := model.balancers(ctx, diags)
	if allKnown(balancers.Address6) {
		err := haproxy.ValidateAddress6(model.Address.ValueString(), balancers.Address6.ValueString())
		if err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("address6"), "Invalid endpoint address", err)
		}
	}
	validateFurther(ctx, model, balancers, diags)
	if name := balancers.Interface.ValueString(); name != "" {
		if err := haproxy.ValidateInterface(name); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("interface"), "Invalid interface", err)
		}
	}
	if !balancers.Konnectivity.IsUnknown() && elementsKnown(ctx, balancers.Konnectivity) && !model.Port.IsUnknown() {
		port := cmp.Or(int(model.Port.ValueInt64()), endpoint.DefaultPort)
		if err := haproxy.ValidateKonnectivity(balancers.konnectivity(ctx), port); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("konnectivity"), "Invalid port of konnectivity", err)
		}
	}
	if !balancers.HandOver.IsUnknown() {
		if err := haproxy.ValidateInherit(balancers.Inherit.ValueBool(), balancers.HandOver.ValueString()); err != nil {
			addInvalid(diags, path.Root("haproxy").AtName("inherit"), "Invalid endpoint", err)
		}
	}
	validateBalancerMetrics(ctx, model, balancers, diags)
	if diags.HasError() || !allKnown(balancers.Hosts) || !elementsKnown(ctx, balancers.Hosts) {
		return
	}
	hosts := stringMapOf(ctx, balancers.Hosts, diags)
	if err := haproxy.ValidateHosts(model.Address.ValueString(), hosts); err != nil {
		addInvalid(diags, path.Root("haproxy").AtName("hosts"), "Invalid endpoint hosts", err)
	}
}

// validateFurther checks the additional addresses against the others.
func validateFurther(ctx context.Context, model endpointModel, balancers haproxyModel, diags *diag.Diagnostics) {
	if balancers.Further.IsNull() || !elementsKnown(ctx, balancers.Further) {
		return
	}
	var hosts map[string]string
	if allKnown(balancers.Hosts) && elementsKnown(ctx, balancers.Hosts) {
		hosts = stringMapOf(ctx, balancers.Hosts, diags)
	}
	err := haproxy.ValidateFurther(model.Address.ValueString(), balancers.Address6.ValueString(),
		stringsOf(ctx, balancers.Further, diags), hosts)
	if err != nil {
		addInvalid(diags, path.Root("haproxy").AtName("additional_addresses"), "Invalid endpoint address", err)
	}
}

func (haproxyKind) checkChange(_ context.Context, m, before endpointModel, diags *diag.Diagnostics) {
	m.refusePort(before, "HAProxy has one port. Kubelets, kubeconfigs and all other clients use the former one, where "+
		"nothing would listen any more.", "another kind, or on other machines", diags)
}

func (haproxyKind) register(
	ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics,
) bool {
	balancers := m.balancers(ctx, diags)
	to.Hosts, to.Address6, to.Further = balancers.Hosts, balancers.Address6, balancers.Further
	return true
}

func (haproxyKind) spec(
	ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics,
) endpointSpec {
	balancers := m.balancers(ctx, diags)
	return haproxyEndpoint{registrars: s.registrars.haproxy, Spec: haproxy.Spec{
		ClusterID:       m.bundle.ClusterID,
		ClusterName:     m.bundle.ClusterName,
		Address:         m.Address.ValueString(),
		Address6:        balancers.Address6.ValueString(),
		Further:         stringsOf(ctx, balancers.Further, diags),
		Port:            int(m.Port.ValueInt64()),
		Hosts:           s.machines(stringMapOf(ctx, balancers.Hosts, diags)),
		Interface:       balancers.Interface.ValueString(),
		VirtualRouterID: int(balancers.VirtualRouterID.ValueInt64()),
		VRRP:            balancers.VRRP.ValueString(),
		InstallPackages: balancers.InstallPackages.ValueBool(),
		HandOver:        balancers.HandOver.ValueString(),
		Inherit:         balancers.Inherit.ValueBool(),
		Authorities:     m.bundle.Known(pki.Kubernetes),
		CACertificate:   m.CA.ValueString(),
		DrainTimeout:    drain,
		Konnectivity:    balancers.konnectivity(ctx),
		Metrics:         balancers.metrics(ctx),

		TextfileDirectory: balancers.textfileDirectory(),
		LivenessProbe:     balancers.LivenessProbe.ValueBool(),
		Abandon:           s.abandon,
		Registered:        s.registeredAt(m.bundle.ClusterID, m.Address.ValueString()),
		Machine:           s.machine,
	}}
}

func (haproxyKind) validateRegistration(r endpoint.Registration) error {
	if r.Address6 != "" {
		if err := haproxy.ValidateAddress6(r.Address, r.Address6); err != nil {
			return err
		}
	}
	if len(r.Further) == 0 {
		return nil
	}
	return haproxy.ValidateFurther(r.Address, r.Address6, r.Further, r.Hosts)
}

func (haproxyKind) registrar(r registrars, at endpoint.Registration) registrar {
	return r.haproxy.For(at)
}

func (k haproxyKind) recorded(r registrars, at endpoint.Registration, _ string) registrar {
	return k.registrar(r, at)
}

func (haproxyKind) health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint {
	return health.Endpoint{Health: r.haproxy.For(at).Health(ctx), Kind: endpoint.HAProxy}
}

type haproxyEndpoint struct {
	haproxy.Spec
	registrars *haproxy.Registrars
}

// identities has one for each host: what a Create finds on a host that it shares with another resource is the same
// endpoint, and its records name the hosts that leave. Without a common host, nobody else would remove the address.
func (e haproxyEndpoint) identities() []string {
	var all []string
	for _, machine := range e.Hosts {
		all = append(all, identity(endpointID(e.Registration()), machine.Address()))
	}
	return all
}

func (e haproxyEndpoint) address() string { return e.Address }

func (e haproxyEndpoint) create(ctx context.Context) (endpoint.Status, error) {
	return haproxy.Create(ctx, e.Spec)
}

func (e haproxyEndpoint) read(ctx context.Context) (endpoint.Status, error) {
	return e.registrars.Read(ctx, e.Spec)
}

func (e haproxyEndpoint) update(ctx context.Context, before endpointSpec) (endpoint.Status, error) {
	prior, _ := before.(haproxyEndpoint)
	return haproxy.Update(ctx, prior.Spec, e.Spec)
}

func (e haproxyEndpoint) remove(
	ctx context.Context, wait time.Duration, superseded endpoint.Superseded, alone func(string),
) error {
	return haproxy.Delete(ctx, e.Spec, haproxy.DeleteOptions{
		Abandon: e.Abandon, WaitForReplicas: e.DrainTimeout + wait, Superseded: superseded,
		LeftAlone: func(why string) { alone(problem.Block(why)) },
	})
}
