package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// metricsSchema says where controller-manager and scheduler can be scraped.
func metricsSchema() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Lets a monitoring system scrape kube-controller-manager (port 10257) and kube-scheduler " +
			"(port 10259) from other machines, over TLS. They serve metrics only to clients that the API server " +
			"authorizes: those of the group `system:monitoring`, for example (a `kube_kubeconfig` with that group has " +
			"no other rights). kube-apiserver needs no setting. By default, both listen on 127.0.0.1. A change " +
			"restarts both, not the API server.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{checked("metrics address", component.ValidateMetricsAddress)},
				MarkdownDescription: "`0.0.0.0`, or `::` for IPv6 and IPv4: all addresses of the machine.",
			},
		},
	}
}

// metricsAddress returns the address of an object of metricsSchema, or "".
func metricsAddress(metrics types.Object) string {
	address, _ := metrics.Attributes()["address"].(types.String)
	return address.ValueString()
}
