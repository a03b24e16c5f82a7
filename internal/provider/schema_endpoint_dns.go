package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
)

// Defaults of a dns endpoint.
const (
	defaultTTL          = "5s"
	defaultDNSInterval  = "1s"
	defaultDNSThreshold = 3
)

func dnsSchema() schema.Attribute {
	duration := func(standard, description string) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(standard),
			PlanModifiers: []planmodifier.String{sameDuration{}}, Validators: []validator.String{durationValidator()},
			MarkdownDescription: description,
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "A DNS name with one address record for each replica, in a zone that takes dynamic updates " +
			"(RFC 2136). A replica adds its record when it is ready, and leaves when the record is gone from all name " +
			"servers and its time to live has passed. A timer on each replica's machine checks all replicas, removes " +
			"the record of one that is not ready, and puts its own back. Connections to a machine that has died end, and " +
			"clients reach another one when the record is gone and their resolver's copy has expired. " +
			"Default: none; one of `haproxy`, `external`, `dns`, `bgp` and `kube_vip` is set. A change restarts nothing.",
		Attributes: map[string]schema.Attribute{
			"zone": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The zone that has the name, such as `example.com`. A change restarts nothing; records " +
					"in the former zone stay.",
			},
			"server": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("name server", checkServer)},
				MarkdownDescription: "The zone's primary server: an IP address, or `IP:port`. Updates and queries use TCP. A " +
					"change restarts nothing; replicas record it.",
			},
			"name_servers": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				Validators: []validator.List{
					listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(checked("name server", checkServer)),
				},
				MarkdownDescription: "The name servers that clients' resolvers ask: an update waits until each of them has " +
					"it. Default: those in the zone's NS records; names of them that are in another zone are resolved on the " +
					"computer that runs Terraform, or on the machine of `probe_from`. A change restarts nothing; replicas record it.",
			},
			"tsig_key": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Name of the key that signs updates, in `tsig_keys` of the provider. It is written to " +
					"the replicas' machines: let it change the address records of this name only. A change restarts nothing; " +
					"replicas record it.",
			},
			"ttl": duration(defaultTTL, "Time to live of the records, up to one minute. Each replica that stops waits for "+
				"that long. Default `"+defaultTTL+"`. A change restarts nothing."),
			"targets": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "IP addresses of the machines of all replicas, by the replicas' names, all IPv4 or all " +
					"IPv6. A change restarts nothing; replicas only record it.",
			},
			"check_interval": duration(defaultDNSInterval, "Time between two checks by the timer on the machines. Default `"+
				defaultDNSInterval+"`. A change restarts nothing; replicas record it."),
			"check_threshold": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(defaultDNSThreshold),
				Validators: []validator.Int64{int64validator.Between(1, 100)},
				MarkdownDescription: "Failed checks in a row that take a record out, and successful ones that put it back. A " +
					"check that gets no answer takes two seconds. Default `3`. A change restarts nothing; replicas record it.",
			},
			"install_packages": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Install nsupdate, dig and curl with the machine's package manager if they are missing. " +
					"What was installed is removed with the replica. Default `true`. A change restarts nothing.",
			},
			"probe_from": schema.StringAttribute{
				Optional: true, Validators: []validator.String{ipValidator()},
				MarkdownDescription: "Address of a machine through which the name servers are reached, if the computer that " +
					"runs Terraform cannot reach them. Default: that computer. A change restarts nothing.",
			},
		},
	}
}

func checkServer(text string) error {
	_, err := dns.ServerAddress(text)
	return err
}

// zoneAttributes describes endpoint.Zone. values creates each of its attributes.
func zoneAttributes(
	text func(string) schema.Attribute, number, list, boolean schema.Attribute,
) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": text("Name of the zone."), "server": text("Primary server, `IP:port`."), "name_servers": list,
		"ttl": text("Time to live of the records."), "tsig_key": text("Name of the key for updates."),
		"check_interval": text("As in `dns`."), "check_threshold": number, "install_packages": boolean,
	}
}

// zoneSchema is the attribute zone of an endpoint's registration.
func zoneSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Computed: true, MarkdownDescription: "Where the replicas of a dns endpoint have their records.",
		Attributes: zoneAttributes(
			func(d string) schema.Attribute {
				return schema.StringAttribute{Computed: true, MarkdownDescription: d}
			},
			schema.Int64Attribute{Computed: true, MarkdownDescription: "As in `dns`."},
			schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "As in `dns`."},
			schema.BoolAttribute{Computed: true, MarkdownDescription: "As in `dns`."},
		),
	}
}

// replicaZoneSchema is the same attribute as an argument of a replica.
func replicaZoneSchema() schema.Attribute {
	const standard = " Default: none. A change restarts nothing."
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: "Where the replicas of a dns endpoint have their records." + standard,
		Attributes: zoneAttributes(
			func(d string) schema.Attribute {
				return schema.StringAttribute{Required: true, MarkdownDescription: d}
			},
			schema.Int64Attribute{Required: true, MarkdownDescription: "As in `dns` of the endpoint."},
			schema.ListAttribute{
				Optional: true, ElementType: types.StringType, MarkdownDescription: "As in `dns` of the endpoint." + standard,
			},
			schema.BoolAttribute{Required: true, MarkdownDescription: "As in `dns` of the endpoint."},
		),
	}
}
