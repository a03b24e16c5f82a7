package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
)

// metricsSchema says where controller-manager and scheduler can be scraped.
func metricsSchema() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Lets a monitoring system scrape kube-controller-manager (port 10257) and kube-scheduler " +
			"(port 10259) from other machines, over TLS. They serve metrics only to clients that the API server " +
			"authorizes: those of the group `system:monitoring`, for example (a `kube_kubeconfig` with that group may " +
			"read metrics and health, and no objects). kube-apiserver needs no setting. By default, both listen on " +
			"127.0.0.1. A change of the address restarts both, not the API server. With `textfile_directory`, facts about " +
			"the replica are written for node_exporter.",
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Optional: true,
				Validators: []validator.String{
					checked("metrics address", component.ValidateMetricsAddress),
					stringvalidator.AtLeastOneOf(path.MatchRelative().AtParent().AtName("textfile_directory")),
				},
				MarkdownDescription: "`0.0.0.0`, or `::` for IPv6 and IPv4: all addresses of the machine. Default: 127.0.0.1.",
			},
			"textfile_directory": textfileSchema("certificates on disk and as they are served, versions that run, stages of " +
				"rotations, and, with `kube_vip` and `bgp`, which machine has or announces the address"),
		},
	}
}

// memberMetricsSchema says where etcd can be scraped, and where facts about a member are written.
func memberMetricsSchema() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: fmt.Sprintf("Lets a monitoring system scrape etcd from other machines at a port that serves "+
			"metrics and health only (%d, over TLS), so that a firewall can close the client port (2379) for it. The clients "+
			"need a certificate of the etcd CA, with which they could read and write everything at the client port. By "+
			"default, etcd serves metrics at the client port, and at 127.0.0.1:2381 without TLS. With `textfile_directory`, "+
			"facts about the member are written for node_exporter.", machine.MetricsPort),
		Attributes: map[string]schema.Attribute{
			"address": schema.StringAttribute{
				Optional: true,
				Validators: []validator.String{
					stringvalidator.OneOf(machine.AllAddresses...),
					stringvalidator.AtLeastOneOf(path.MatchRelative().AtParent().AtName("textfile_directory")),
				},
				MarkdownDescription: "`0.0.0.0`, or `::` for IPv6 and IPv4: all addresses of the machine. Default: none. A " +
					"change restarts the members one at a time, the leader last.",
			},
			"textfile_directory": textfileSchema("certificates on disk and as they are served, the version that runs, " +
				"scheduled snapshots, since when it is a learner, and the stage of a rotation"),
		},
	}
}

// validateMetrics refuses two values for the same flag.
func (m etcdMemberModel) validateMetrics(diags *diag.Diagnostics) {
	if _, set := m.ExtraArgs.Elements()[release.MetricsURLsFlag]; set && metricsAddress(m.Metrics) != "" {
		diags.AddAttributeError(path.Root("metrics").AtName("address"), "Listener for metrics is set twice",
			"metrics.address adds a URL to "+release.MetricsURLsFlag+", which extra_args sets as a whole.\n"+
				"Next step: omit one of the two.")
	}
}

// textfileSchema is the directory for facts.
func textfileSchema(facts string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{checked("directory", textfile.ValidateDirectory)},
		MarkdownDescription: "Directory of node_exporter's textfile collector, such as " +
			"`/var/lib/prometheus/node-exporter`. A timer on the machine writes facts there that no component serves: " +
			facts + ", and the offset of the clock (guide [Monitoring](../guides/monitoring.md)). Nothing is written until " +
			"the directory exists. The machine needs `openssl` and `curl`. Default: none. A change restarts nothing.",
	}
}

// textfileDirectory returns the directory of facts in an object of these schemas, or "".
func textfileDirectory(metrics types.Object) string {
	directory, _ := metrics.Attributes()["textfile_directory"].(types.String)
	return directory.ValueString()
}

// metricsAddress returns the address in an object of these schemas, or "".
func metricsAddress(metrics types.Object) string {
	address, _ := metrics.Attributes()["address"].(types.String)
	return address.ValueString()
}
