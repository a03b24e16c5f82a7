package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/objectvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

func haproxySchema() schema.Attribute {
	var others []path.Expression
	for _, at := range kindPaths(targetsKinds) {
		others = append(others, at.Expression())
	}
	return schema.SingleNestedAttribute{
		Optional:   true,
		Validators: []validator.Object{objectvalidator.ExactlyOneOf(others...)},
		MarkdownDescription: "Load balancing by HAProxy, and the virtual IP by keepalived (VRRP). A " +
			"change reloads the affected service on one machine after the other, the machine with the virtual IP " +
			"last; a reload closes no connection. Default: none; one of `haproxy`, `external`, `dns`, " +
			"`bgp` and `kube_vip` is set.",
		Attributes: map[string]schema.Attribute{
			"hosts": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Addresses of the machines with HAProxy and keepalived, by name. They may be " +
					"the machines of the replicas. A change sets up added machines and cleans removed ones; if " +
					"the machine with the virtual IP is removed, connections through it are closed. To replace all " +
					"machines, add the new ones in one apply, and remove the old ones in a second one: only the old ones " +
					"know the replicas.",
			},
			"address6": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "A second virtual IP for a dual-stack control plane: an unused IPv6 address in the " +
					"machines' network, beside an IPv4 `address`. One machine has both, and each machine needs an IPv6 " +
					"address on the interface. Certificates of the API servers contain it. A change reloads HAProxy and " +
					"keepalived and keeps the connections to `address`. Default: none.",
			},
			"additional_addresses": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				Validators: []validator.List{listvalidator.SizeBetween(1, haproxy.MostFurther), listvalidator.UniqueValues()},
				MarkdownDescription: "Further virtual IPs: unused addresses in the machines' network, or in another one " +
					"on the same interface that all of them reach. One machine has all of them. IPv6 beside an IPv4 `address` " +
					"is possible, and each machine then needs an IPv6 address on the interface. Certificates of the API servers " +
					"contain them. A change reloads HAProxy and keepalived and keeps the connections to the other addresses. " +
					"Default: none.",
			},
			"interface": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Network interface of the virtual IP. Default: the interface with the " +
					"machine's address. A change reloads keepalived.",
			},
			"virtual_router_id": schema.Int64Attribute{
				Optional:   true,
				Validators: []validator.Int64{int64validator.Between(1, 255)},
				MarkdownDescription: "VRRP router id, 1–255, unique in the network. A change restarts keepalived on the " +
					"machines without the virtual IP, and reloads it where the virtual IP is; connections may fail for " +
					"less than a second. Default: derived from `address`.",
			},
			"vrrp": schema.StringAttribute{
				Optional:   true,
				Validators: []validator.String{stringvalidator.OneOf(haproxy.Unicast, haproxy.Multicast)},
				MarkdownDescription: "How the machines send VRRP advertisements: `unicast`, to the addresses in `hosts`, or " +
					"`multicast`, to 224.0.0.18, which not every network passes. A change restarts keepalived on the " +
					"machines without the virtual IP, and reloads it where the virtual IP is; connections may fail for " +
					"less than a second. Default: `unicast`.",
			},
			"hand_over":      handOverSchema(),
			"inherit":        inheritSchema(),
			"konnectivity":   tunnelSchema(),
			"metrics":        balancerMetricsSchema(),
			"liveness_probe": balancerLivenessSchema(),
			"install_packages": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Install HAProxy and keepalived with the machine's package manager if they " +
					"are missing. Default `true`; with `false`, a machine without them is refused before any " +
					"change. A change reloads nothing.",
			},
		},
	}
}
