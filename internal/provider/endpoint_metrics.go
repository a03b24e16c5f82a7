package provider

import (
	"cmp"
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// balancerMetricsModel is where balancers serve metrics.
type balancerMetricsModel struct {
	Address   *string `tfsdk:"address"`
	Port      *int    `tfsdk:"port"`
	Textfiles *string `tfsdk:"textfile_directory"`
}

var balancerMetricsTypes = map[string]attr.Type{
	"address": types.StringType, "port": types.Int64Type, "textfile_directory": types.StringType,
}

func balancerMetricsSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Lets a monitoring system scrape HAProxy's own metrics from other machines, at `/metrics` of " +
			"each of `hosts`, without TLS and without a login: they have the names, states and numbers of connections of " +
			"the replicas, and no content. Open the port for the monitoring system only (see " +
			"`provider::kube::firewall_rules`). With `textfile_directory`, facts about the endpoint are written for " +
			"node_exporter. Default: none. A change reloads HAProxy at most.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Optional: true,
				Validators: []validator.String{
					stringvalidator.OneOf("0.0.0.0", "::"),
					stringvalidator.AtLeastOneOf(path.MatchRelative().AtParent().AtName("textfile_directory")),
				},
				MarkdownDescription: "`0.0.0.0`, or `::` for IPv6 and IPv4: all addresses of the machine. Default: none; " +
					"nothing listens. A change reloads HAProxy.",
			},
			"port": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{
					int64validator.Between(1024, 65535),
					int64validator.AlsoRequires(path.MatchRelative().AtParent().AtName("address")),
				},
				MarkdownDescription: "TCP port from 1024 on. Default `8405`. A change reloads HAProxy.",
			},
			"textfile_directory": textfileSchema("which machine has the virtual IP, and how often it moved"),
		},
	}
}

// metrics returns where the balancers serve metrics, or nil.
func (m haproxyModel) metrics(ctx context.Context) *haproxy.Metrics {
	model := decodeObject[balancerMetricsModel](ctx, m.Metrics)
	if model == nil || model.Address == nil {
		return nil
	}
	out := haproxy.Metrics{Address: *model.Address, Port: haproxy.DefaultMetricsPort}
	if model.Port != nil {
		out.Port = *model.Port
	}
	return &out
}

// textfileDirectory returns the directory of facts, or "".
func (m haproxyModel) textfileDirectory() string { return textfileDirectory(m.Metrics) }

// observedBalancerMetrics returns the configuration of an imported endpoint. The default is not set.
func observedBalancerMetrics(m *haproxy.Metrics, directory string) *balancerMetricsModel {
	if m == nil && directory == "" {
		return nil
	}
	var out balancerMetricsModel
	if m != nil {
		out.Address = &m.Address
		if m.Port != haproxy.DefaultMetricsPort {
			out.Port = &m.Port
		}
	}
	if directory != "" {
		out.Textfiles = &directory
	}
	return &out
}

// validateBalancerMetrics checks the rules between the ports of an endpoint, as far as they are known.
func validateBalancerMetrics(
	ctx context.Context, model endpointModel, balancers haproxyModel, diags *diag.Diagnostics,
) {
	for _, object := range []types.Object{balancers.Metrics, balancers.Konnectivity} {
		if object.IsUnknown() || !elementsKnown(ctx, object) {
			return
		}
	}
	if model.Port.IsUnknown() {
		return
	}
	port := cmp.Or(int(model.Port.ValueInt64()), endpoint.DefaultPort)
	if err := haproxy.ValidateMetrics(balancers.metrics(ctx), port, balancers.konnectivity(ctx)); err != nil {
		addInvalid(diags, path.Root("haproxy").AtName("metrics"), "Invalid metrics of the balancers", err)
	}
}
