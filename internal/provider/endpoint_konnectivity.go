package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// tunnelModel is the port of konnectivity's agents at a virtual IP.
type tunnelModel struct {
	Port    *int              `tfsdk:"port"`
	Targets map[string]string `tfsdk:"targets"` // null is nil
}

var tunnelTypes = map[string]attr.Type{
	"port": types.Int64Type, "targets": types.MapType{ElemType: types.StringType},
}

func tunnelSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "A second port at `address`, for the agents of `konnectivity` of the replicas (see the guide " +
			"[Konnectivity](../guides/konnectivity.md)). Default: none. A change reloads HAProxy.",
		Attributes: map[string]schema.Attribute{
			"port": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1024, 65535)},
				MarkdownDescription: "TCP port from 1024 on, the same as `agent_port` of the replicas. Default `8132`. A change " +
					"reloads HAProxy, and agents need the new port in their manifest.",
			},
			"targets": schema.MapAttribute{
				Optional: true, ElementType: types.StringType, Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Addresses of the replicas' machines, by name. Default: `hosts`, which fits if each of " +
					"these machines has a replica. Agents connect to a machine as soon as its proxy server runs, so that a " +
					"new replica has agents before it serves. A change reloads HAProxy.",
			},
		},
	}
}

// konnectivity returns the port of agents, or nil if there is none.
func (m haproxyModel) konnectivity(ctx context.Context) *haproxy.Konnectivity {
	tunnel := decodeObject[tunnelModel](ctx, m.Konnectivity)
	if tunnel == nil {
		return nil
	}
	k := haproxy.Konnectivity{Port: haproxy.DefaultKonnectivityPort, Targets: tunnel.Targets}
	if tunnel.Port != nil {
		k.Port = *tunnel.Port
	}
	return &k
}

// observedTunnel returns the configuration of an imported port of agents. The default is not set.
func observedTunnel(k *haproxy.Konnectivity) *tunnelModel {
	if k == nil {
		return nil
	}
	m := tunnelModel{Targets: k.Targets}
	if k.Port != haproxy.DefaultKonnectivityPort {
		m.Port = &k.Port
	}
	return &m
}
