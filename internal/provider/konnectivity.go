package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// konnectivityModel configures the proxy server of a replica. Defaults are nil, so that the records on the
// machines show what was configured.
type konnectivityModel struct {
	Program   *string `tfsdk:"program" json:"program,omitempty"`
	AgentPort *int    `tfsdk:"agent_port" json:"agent_port,omitempty"`
}

func konnectivitySchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "The proxy server of [konnectivity](https://kubernetes.io/docs/tasks/extend-kubernetes/" +
			"setup-konnectivity/) on the machine, for control planes whose machines do not reach Services, Pods and " +
			"nodes: the API server calls webhooks of Services and aggregated APIs, and serves `kubectl logs` and `exec`, " +
			"through agents that connect to it from the cluster. `provider::kube::konnectivity_agent_manifest` returns " +
			"the manifest of the agents; until they run, the API server reaches none of these (see the guide " +
			"[Konnectivity](../guides/konnectivity.md)). It must be the same on all replicas. Default: none; the API " +
			"server connects directly. A change restarts the API servers, one replica at a time; so do a new address of an " +
			"endpoint (also of an additional one) and a renewal of the proxy server's certificate, which it reads at its " +
			"start. It is not available with a Kubernetes CA whose key is held elsewhere.",
		Attributes: map[string]schema.Attribute{
			"program": schema.StringAttribute{
				Optional:   true,
				Validators: []validator.String{checked("path of a program", component.ValidateKonnectivityProgram)},
				MarkdownDescription: "Path of konnectivity's `proxy-server` on the machine. The provider does not install " +
					"it, because upstream releases it as a container image only. Default `" +
					component.DefaultKonnectivityProgram + "`. A running process does not notice that its file was " +
					"replaced: to upgrade, use a path with the version. A change restarts the proxy server and the API " +
					"servers, one replica at a time.",
			},
			"agent_port": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1024, 65535)},
				MarkdownDescription: "TCP port from 1024 on to which agents connect, on the address on which the API server " +
					"listens. Default `8132`. A change restarts the proxy server and the API servers, one replica at a time; " +
					"agents need the new port in their manifest.",
			},
		},
	}
}

// konnectivity returns the proxy server that m configures, or nil.
func (m replicaModel) konnectivity(ctx context.Context) *component.Konnectivity {
	return decodeObject[konnectivityModel](ctx, m.Konnectivity).konnectivity()
}

func (m *konnectivityModel) konnectivity() *component.Konnectivity {
	if m == nil {
		return nil
	}
	k := component.Konnectivity{Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort}
	if m.Program != nil {
		k.Program = *m.Program
	}
	if m.AgentPort != nil {
		k.AgentPort = *m.AgentPort
	}
	return &k
}

// observedKonnectivity returns the settings as they were configured if that produces what the
// machine has, and otherwise as observed.
func observedKonnectivity(recorded *konnectivityModel, observed *component.Konnectivity) *konnectivityModel {
	supplied := recorded.konnectivity()
	switch {
	case observed == nil:
		return nil
	case supplied != nil && *supplied == *observed:
		return recorded
	}
	m := konnectivityModel{}
	if observed.Program != component.DefaultKonnectivityProgram {
		m.Program = &observed.Program
	}
	if observed.AgentPort != component.DefaultAgentPort {
		m.AgentPort = &observed.AgentPort
	}
	return &m
}

// validateKonnectivity checks the rules between these settings, the port and extra_args, as far as
// their values are known.
func (m replicaModel) validateKonnectivity(ctx context.Context, diags *diag.Diagnostics) {
	if m.Konnectivity.IsNull() || !elementsKnown(ctx, m.Konnectivity) || !elementsKnown(ctx, m.ExtraArgs) ||
		m.Port.IsUnknown() {
		return
	}
	port := component.Replica{Port: int(m.Port.ValueInt64())}.APIPort()
	extra := m.extraArgs(ctx, diags)[release.APIServer]
	if err := component.ValidateKonnectivity(m.konnectivity(ctx), port, extra); err != nil {
		addInvalid(diags, path.Root("konnectivity"), "Invalid konnectivity settings", err)
	}
}
