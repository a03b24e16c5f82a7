package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
)

func bgpSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "An IP address that every replica's machine has, and announces to its routers by BGP (bird) " +
			"while its own API server is ready. Routers with several routes spread connections over the replicas. The route " +
			"is withdrawn before a replica stops, and is lost with a machine that dies: within a second with BFD. Connections " +
			"through a route that is gone end, and clients connect again. Default: none; one of `haproxy`, `external`, `dns`, " +
			"`bgp` and `kube_vip` is set. A change restarts nothing but bird.",
		Attributes: map[string]schema.Attribute{
			"asn": schema.Int64Attribute{
				Required: true, Validators: []validator.Int64{int64validator.Between(1, 4294967294)},
				MarkdownDescription: "Autonomous system of the machines. A change starts their sessions again and restarts " +
					"nothing.",
			},
			"peers": schema.ListNestedAttribute{
				Required: true, Validators: []validator.List{listvalidator.SizeBetween(1, 16)},
				MarkdownDescription: "The routers, 1 to 16: two for a network that tolerates the loss of one. They accept this " +
					"address from every target, or from those in `targets`. A change configures bird again and restarts nothing.",
				NestedObject: schema.NestedAttributeObject{Attributes: peerArguments()},
			},
			"targets": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "IP addresses of the machines of all replicas, by the replicas' names, of the same family " +
					"as `address`. A change restarts nothing; replicas only record it.",
			},
			"hold_time": bgpDuration(bgp.DefaultHoldTime.String(), "After how long without a message a session without BFD is "+
				"down, `3s` or more."),
			"bfd_interval": bgpDuration(bgp.DefaultBFDInterval.String(), "Time between two BFD packets. A session is down when "+
				"three are missing."),
			"propagation_time": bgpDuration(bgp.DefaultPropagation.String(), "How long the network may take to follow a "+
				"withdrawal. A replica that leaves waits for that long after it."),
			"install_packages": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Install bird and curl with the machine's package manager if they are missing. What was " +
					"installed is removed with the replica. Default `true`; with `false`, a replica is not registered on a " +
					"machine without them. A change restarts nothing; replicas only record it.",
			},
		},
	}
}

func bgpDuration(standard, description string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Default: stringdefault.StaticString(standard),
		PlanModifiers: []planmodifier.String{sameDuration{}}, Validators: []validator.String{durationValidator()},
		MarkdownDescription: description + " Default `" + standard + "`. A change restarts nothing.",
	}
}

// peerArguments describes endpoint.Peer in the configuration.
func peerArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"address": schema.StringAttribute{
			Required: true, Validators: []validator.String{ipValidator()},
			MarkdownDescription: "IP address of the router. A change restarts nothing.",
		},
		"asn": schema.Int64Attribute{
			Required: true, Validators: []validator.Int64{int64validator.Between(1, 4294967294)},
			MarkdownDescription: "Its autonomous system. A change restarts nothing.",
		},
		"bfd": schema.BoolAttribute{
			Optional:            true,
			MarkdownDescription: "Whether it uses BFD. Default: none, which is `false`. A change restarts nothing.",
		},
		"multihop": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, 255)},
			MarkdownDescription: "Number of hops to a router that is not on the machines' network. Default: none, for one " +
				"that is. A change restarts nothing.",
		},
		"password": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Name of the session's password in `bgp_passwords` of the provider. Default: none. A change " +
				"restarts nothing.",
		},
		"targets": schema.SetAttribute{
			Optional: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Names of the targets that have a session with it, such as those in its zone. Default: none, " +
				"which is all. A change configures bird again and restarts nothing.",
		},
	}
}

// announcementSchema is the attribute bgp of an endpoint's registration.
func announcementSchema() schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	number := func(description string) schema.Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
	}
	return schema.SingleNestedAttribute{
		Computed: true, MarkdownDescription: "How the machines of a bgp endpoint announce it.",
		Attributes: map[string]schema.Attribute{
			"asn": number("As in `bgp`."), "hold_time": text("As in `bgp`."), "bfd_interval": text("As in `bgp`."),
			"propagation_time": text("As in `bgp`."),
			"install_packages": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "As in `bgp`; null is `true`.",
			},
			"peers": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "As in `bgp`, by address.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"address": text("IP address of the router."), "asn": number("Its autonomous system."),
					"bfd":      schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it uses BFD."},
					"multihop": number("Number of hops to it."), "password": text("Name of the session's password."),
					"targets": schema.SetAttribute{
						Computed: true, ElementType: types.StringType,
						MarkdownDescription: "Names of the targets that have a session with it, or null.",
					},
				}},
			},
		},
	}
}

// replicaAnnouncementSchema is the same attribute as an argument of a replica.
func replicaAnnouncementSchema() schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Required: true, MarkdownDescription: description}
	}
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: "How the machines of a bgp endpoint announce it. Default: none. A change " +
			"restarts nothing.",
		Attributes: map[string]schema.Attribute{
			"asn":       schema.Int64Attribute{Required: true, MarkdownDescription: "As in `bgp` of the endpoint."},
			"hold_time": text("As in `bgp` of the endpoint."), "bfd_interval": text("As in `bgp` of the endpoint."),
			"propagation_time": text("As in `bgp` of the endpoint."),
			"install_packages": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "As in `bgp` of the endpoint. Default: none, which is `true`. A change restarts nothing.",
			},
			"peers": schema.ListNestedAttribute{
				Required: true, MarkdownDescription: "As in `bgp` of the endpoint.",
				NestedObject: schema.NestedAttributeObject{Attributes: peerArguments()},
			},
		},
	}
}
