package provider

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
)

func kubeVIPSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "A virtual IP that one of the replicas' machines has, in a network of one layer-2 segment and " +
			"without balancers: kube-vip on each machine elects it by a Lease of the Kubernetes API. All clients reach the " +
			"API server of that machine. Its certificate may read and update this Lease, and nothing else. When the holder " +
			"leaves rotation, another machine gets the address before it drops it; when it dies, within the duration of the " +
			"Lease and three seconds. Connections to it end then, and clients connect again. In the mode `bgp`, every " +
			"machine has the address and announces it to its routers instead, without a Lease. You install kube-vip on the " +
			"machines. " +
			"Default: none; one of `haproxy`, `external`, `dns`, `bgp` and `kube_vip` is set. A change restarts nothing but " +
			"kube-vip, one machine after the other.",
		Attributes: map[string]schema.Attribute{
			"targets": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Addresses of the machines of all replicas, by the replicas' names: IPv4 or IPv6, as " +
					"`address`, which is an unused address: in their network with `arp`, in none with `bgp`. A change restarts " +
					"nothing; replicas only record it.",
			},
			"mode": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(kubevip.ARP),
				Validators:    []validator.String{stringvalidator.OneOf(kubevip.ARP, kubevip.BGP)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "How the network learns who has the address: `arp`, one machine tells its neighbors; " +
					"`bgp`, every machine announces it to `peers` while its own API server is ready. Without BFD and filters, " +
					"kube-vip does that less well than the kind `bgp`. Default `arp`. A change replaces the endpoint, which is " +
					"refused while it has replicas.",
			},
			"asn": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1, 4294967294)},
				MarkdownDescription: "Autonomous system of the machines, for the mode `bgp`, which needs it. Default: none. A " +
					"change restarts kube-vip.",
			},
			"peers": schema.ListNestedAttribute{
				Optional: true, Validators: []validator.List{listvalidator.SizeBetween(1, 16)},
				MarkdownDescription: "The routers, 1 to 16, for the mode `bgp`, which needs them. All are in one autonomous " +
					"system, because kube-vip has no filters. `bfd` is refused. `multihop` may be any number. Default: none. A " +
					"change restarts kube-vip.",
				NestedObject: schema.NestedAttributeObject{Attributes: peerArguments()},
			},
			"hold_time": optionalDuration(bgp.DefaultHoldTime, "After how long without a message a session is down, `3s` or "+
				"more, for the mode `bgp`: a machine that dies is announced for that long. A change restarts kube-vip."),
			"propagation_time": optionalDuration(bgp.DefaultPropagation, "How long the network may take to follow a "+
				"withdrawal, for the mode `bgp`. A machine keeps the address for that long after it. A change restarts kube-vip."),
			"interface": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Network interface for the address, for the mode `arp`. Default: none; the one with the " +
					"machine's own address, whose network must contain the endpoint's. A change restarts kube-vip.",
			},
			"program": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(kubevip.DefaultProgram),
				MarkdownDescription: "Path of kube-vip on the machines. Default `" + kubevip.DefaultProgram + "`. A change " +
					"restarts kube-vip.",
			},
			"sha256": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "SHA-256 of that program, in lower case. A machine with another one is refused, and its " +
					"kube-vip is not started. Default: none; it is not checked. A change restarts kube-vip.",
			},
			"lease_name": schema.StringAttribute{
				Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the Lease in the namespace `kube-system`, in the mode `arp`. Set it if static pods " +
					"of kube-vip have the address (`vip_leasename` in their manifest, often `plndr-cp-lock`): the machines then " +
					"take the address over from them, one after the other. Default: none; it is named after the address. A " +
					"change replaces the endpoint, which is refused while it has replicas.",
			},
			"lease_duration": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(kubevip.DefaultLeaseDuration.String()),
				PlanModifiers: []planmodifier.String{sameDuration{}}, Validators: []validator.String{durationValidator()},
				MarkdownDescription: "How long the Lease of a holder that is gone is respected, `5s` to `1m`, in the mode " +
					"`arp`. The holder renews " +
					"it within three fifths of that time; an etcd that is slower than that costs it the address. Default `5s`. " +
					"A change restarts kube-vip.",
			},
		},
	}
}

// optionalDuration describes a time that is not in the state if it is not set.
func optionalDuration(standard time.Duration, description string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, PlanModifiers: []planmodifier.String{sameDuration{}},
		Validators:          []validator.String{durationValidator()},
		MarkdownDescription: description + " Default: none, which is `" + standard.String() + "`.",
	}
}

// electionSchema is the attribute kube_vip of an endpoint's registration.
func electionSchema() schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return schema.SingleNestedAttribute{
		Computed: true, MarkdownDescription: "How the machines of a kube_vip endpoint elect the holder of its address.",
		Attributes: map[string]schema.Attribute{
			"mode": text("As in `kube_vip`."), "interface": text("As in `kube_vip`."), "program": text("As in `kube_vip`."),
			"sha256": text("As in `kube_vip`."), "lease_name": text("As in `kube_vip`."),
			"lease_duration": text("As in `kube_vip`."),
		},
	}
}

// replicaElectionSchema is the same attribute as an argument of a replica.
func replicaElectionSchema() schema.Attribute {
	text := func(required bool, description string) schema.Attribute {
		return schema.StringAttribute{Required: required, Optional: !required, MarkdownDescription: description}
	}
	const as = "As in `kube_vip` of the endpoint."
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: "How the machines of a kube_vip endpoint elect the holder of its address. " +
			"Default: none. A change restarts kube-vip.",
		Attributes: map[string]schema.Attribute{
			"mode": text(true, as), "program": text(true, as), "lease_duration": text(true, as),
			"interface":  text(false, as+" Default: none. A change restarts kube-vip."),
			"sha256":     text(false, as+" Default: none. A change restarts kube-vip."),
			"lease_name": text(false, as+" Default: none. A change is refused while it has replicas."),
		},
	}
}
