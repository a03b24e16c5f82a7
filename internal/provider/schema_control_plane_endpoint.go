package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

func endpointSchema(ctx context.Context) schema.Schema {
	attributes := endpointArguments()
	for name, attribute := range endpointComputed() {
		attributes[name] = attribute
	}
	for _, kind := range endpointKinds {
		attributes[string(kind.name())] = kind.schema()
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `10m`, which includes the installation of packages.",
		ReadDescription:   "Default `1m`.",
		UpdateDescription: "Default `10m`.",
		DeleteDescription: "Default `10m`.",
	}))
	return schema.Schema{
		Version: 1,
		MarkdownDescription: "The fixed address of a control plane's API, of exactly one kind: `haproxy`, a virtual " +
			"IP that keepalived manages in front of HAProxy, on separate machines or on those of the replicas; " +
			"`external`, an address that others look after, such as a cloud's load balancer; `dns`, a name with the " +
			"addresses of the replicas that are ready; `bgp`, an address that their machines announce; or `kube_vip`, a " +
			"virtual IP that one of them has. Replicas join and " +
			"leave its rotation on their own, through `registration`. It is created before them and cannot be " +
			"destroyed while one of them is in rotation. A change of the kind replaces the endpoint: to move to another " +
			"one, use `additional_endpoints` of the replicas.",
		Attributes: attributes,
	}
}

func endpointArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"address": schema.StringAttribute{
			Required:      true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:    []validator.String{checked("endpoint address", targets.ValidateAddress)},
			MarkdownDescription: "With `haproxy`, the virtual IP: an unused address in the machines' network. With " +
				"`external`, the balancer's IP address or DNS name. With `dns`, the name. With `bgp`, " +
				"the IP address that the machines announce. With `kube_vip`, an unused address, in the machines' network " +
				"unless they announce it. " +
				"A change replaces the endpoint.",
		},
		"port": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(6443),
			Validators: []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "TCP port at the address. Default `6443`. With `haproxy`, it may be the same port that the " +
				"replicas use on their own addresses; with `dns`, `bgp` and `kube_vip`, it has to be. A change " +
				"restarts nothing with `external`. It is refused with the other kinds, because clients use the former port (see " +
				"[Moving to another endpoint](../guides/topologies.md#moving-to-another-endpoint)).",
		},
		"pki": schema.StringAttribute{
			Required: true, Sensitive: true,
			MarkdownDescription: "The `bundle` of the cluster's `kube_pki_bundle`. It identifies the cluster of " +
				"the endpoint; only the cluster's name and ID are written to the machines. Machines with the " +
				"endpoint of another cluster are refused. A change caused by a rotation stage or a new seal does " +
				"not affect any machine; a new cluster name is written to the machines without a reload; the " +
				"bundle of another cluster replaces the endpoint.",
		},
		"ca_certificate": schema.StringAttribute{
			Optional:   true,
			Validators: []validator.String{checked("CA certificate", checkCertificate)},
			MarkdownDescription: "Certificate of the Kubernetes CA, PEM. Health checks then verify the replicas " +
				"against it. Default: none; health checks use TLS without verification. Client traffic is always " +
				"passed through and verified by the client. A change reloads HAProxy. Only with `haproxy`.",
		},
		"drain_timeout": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("10s"),
			PlanModifiers: []planmodifier.String{sameDuration{}},
			Validators:    []validator.String{durationValidator()},
			MarkdownDescription: "How long a replica that leaves rotation keeps its existing sessions; the API " +
				"server closes the remaining ones when it stops. Default `10s`. A change restarts and reloads " +
				"nothing; replicas only record it.",
		},
	}
}

func hookSchema(description string) schema.Attribute {
	return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
}

func endpointComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":      schema.StringAttribute{Computed: true, MarkdownDescription: "The address."},
		"backend": externalBackendSchema(),
		"url": schema.StringAttribute{Computed: true, MarkdownDescription: "The API's address, such as " +
			"`https://10.0.0.100:6443`."},
		"registration": schema.SingleNestedAttribute{
			Computed: true,
			MarkdownDescription: "Everything that a replica needs to join and leave rotation, for its `endpoint` " +
				"attribute.",
			Attributes: map[string]schema.Attribute{
				"address": schema.StringAttribute{Computed: true, MarkdownDescription: "The endpoint's address."},
				"address6": schema.StringAttribute{Computed: true, MarkdownDescription: "The second virtual IP, or " +
					"null."},
				"additional_addresses": schema.ListAttribute{
					Computed: true, ElementType: types.StringType,
					MarkdownDescription: "The further virtual IPs, or null.",
				},
				"port": schema.Int64Attribute{Computed: true, MarkdownDescription: "TCP port at the address."},
				"hosts": schema.MapAttribute{
					Computed: true, ElementType: types.StringType,
					MarkdownDescription: "Addresses of the balancers, or of the targets of an endpoint without any, by name.",
				},
				"kind": schema.StringAttribute{Computed: true, MarkdownDescription: "`external`, `dns`, `bgp`, " +
					"`kube_vip`, or null for `haproxy`."},
				"zone":     zoneSchema(),
				"bgp":      announcementSchema(),
				"kube_vip": electionSchema(),
				"target_port": schema.Int64Attribute{Computed: true, MarkdownDescription: "The API servers' port " +
					"behind an endpoint without balancers."},
				"hooks": schema.SingleNestedAttribute{
					Computed: true, MarkdownDescription: "As in `external`.",
					Attributes: map[string]schema.Attribute{
						"register":   hookSchema("Puts a replica into rotation."),
						"drain":      hookSchema("Takes a replica out of rotation."),
						"deregister": hookSchema("Removes a replica."),
						"status":     hookSchema("Says whether a replica is in rotation."),
					},
				},
				"detection_time": schema.StringAttribute{Computed: true, MarkdownDescription: "Longest time until an " +
					"external balancer stops sending requests to a replica that is no longer ready."},
				"healthy_time": schema.StringAttribute{Computed: true, MarkdownDescription: "Longest time until an " +
					"external balancer sends requests to a replica that has become ready. Null is `detection_time`."},
				"probe_from": schema.StringAttribute{Computed: true, MarkdownDescription: "Address of the machine from " +
					"which an external endpoint is probed, or the name servers of a dns endpoint are asked."},
				"drain_timeout": schema.StringAttribute{Computed: true, MarkdownDescription: "How long a replica " +
					"that leaves rotation keeps its existing sessions."},
				"verify_ca": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether health checks " +
					"verify the replica's certificate."},
				"cluster_id": schema.StringAttribute{Computed: true, MarkdownDescription: "ID of the cluster: " +
					"a balancer of another cluster refuses the replica."},
			},
		},
		"config_digest": digestSchema(),
		"drift":         driftSchema(""),
	}
}
