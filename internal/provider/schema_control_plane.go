package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

func controlPlaneSchema(ctx context.Context) schema.Schema {
	attributes := querySchema()
	attributes["fail_on"] = schema.SetAttribute{
		Optional: true, ElementType: types.StringType,
		Validators: []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(health.Kinds...))},
		MarkdownDescription: "Kinds of issues that are errors: `unreachable` (a machine or component that cannot " +
			"be queried), `unhealthy` (a problem of a machine or component that was queried), `expiring` (a " +
			"certificate that expires within `certificate_days`). Default: none, so that a failure never blocks " +
			"the apply that repairs it. With a kind in this list, plans fail while there is such an issue, " +
			"including plans to destroy; in a `check` block, an error is a warning.",
	}
	attributes["certificate_days"] = schema.Int64Attribute{
		Optional: true, Validators: []validator.Int64{int64validator.Between(0, 36500)},
		MarkdownDescription: "A certificate that expires in fewer days is an issue. Default `30`. The provider " +
			"renews its certificates in the last third of their lifetime.",
	}
	for name, attribute := range controlPlaneComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = queryTimeout(timeouts.AttributesWithOpts(ctx, timeouts.Opts{
		ReadDescription: "Default `30s`. A component that has not answered by then is an issue. A dead machine is " +
			"detected after `ssh.connect_timeout` of the provider.",
	}))
	return schema.Schema{
		MarkdownDescription: "Health of a control plane. Queries the machines of etcd, of the endpoint's " +
			"balancers and of the replicas that these list, and every component, in parallel: one read-only " +
			"command for each component on each machine. Problems are listed in `issues`, and are errors only " +
			"with `fail_on`: if a `check` block asserts `healthy`, plans warn, but scaling, repairs and destroys " +
			"continue. Put the data source next to that block: a data source inside it is planned to be read " +
			"again in every apply, so no plan is empty.",
		Attributes: attributes,
	}
}

// querySchema describes how to query a whole control plane.
func querySchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"pki": schema.StringAttribute{
			Required: true, Sensitive: true,
			MarkdownDescription: "The `bundle` of the cluster's `kube_pki_bundle`. It issues short-lived client " +
				"certificates for etcd and the API servers.",
		},
		"signed": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Certificates signed by an external signer, as in `signed` of a " +
				"`kube_control_plane_replica`, for CAs of the bundle with an external key. Default: those that are " +
				"installed on a machine of `etcd`.",
			Attributes: map[string]schema.Attribute{
				"keys": schema.StringAttribute{
					Required: true, Sensitive: true,
					MarkdownDescription: "The `keys` of the `kube_certificate_requests` whose requests were signed.",
				},
				"certificates": schema.MapAttribute{
					Required: true, ElementType: types.StringType,
					MarkdownDescription: "The certificates, PEM, by the names of `requests`.",
				},
			},
		},
		"etcd": schema.SetAttribute{
			Required: true, ElementType: types.StringType,
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Client URLs of all etcd members, so that any of them may be down.",
		},
		"endpoint": schema.SingleNestedAttribute{
			Required: true,
			MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`: its " +
				"balancers list the replicas.",
			Attributes: map[string]schema.Attribute{
				"address": schema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
				"address6": schema.StringAttribute{Optional: true, MarkdownDescription: "The second virtual IP of a " +
					"dual-stack endpoint. Default: none."},
				"additional_addresses": registeredAddressesSchema(),
				"port":                 schema.Int64Attribute{Required: true, MarkdownDescription: "TCP port at the address."},
				"hosts": schema.MapAttribute{
					Required: true, ElementType: types.StringType,
					MarkdownDescription: "Addresses of the balancers, or of the targets of an endpoint without any, by name.",
				},
				"kind": schema.StringAttribute{Optional: true, MarkdownDescription: "`external`, `dns`, `bgp` or " +
					"`kube_vip`. Default: none, for `haproxy`."},
				"zone":     replicaZoneSchema(),
				"bgp":      replicaAnnouncementSchema(),
				"kube_vip": replicaElectionSchema(),
				"target_port": schema.Int64Attribute{Optional: true, MarkdownDescription: "The API servers' port " +
					"behind an external endpoint. Default: none."},
				"probe_from": schema.StringAttribute{Optional: true, MarkdownDescription: "Address of the machine " +
					"from which an external endpoint is probed. Default: none."},
				"cluster_id": schema.StringAttribute{Optional: true, MarkdownDescription: "ID of the endpoint's " +
					"cluster. Default: the cluster of `pki`."},
			},
		},
	}
}

// The kinds of computed attributes.

func computedText(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedFlag(description string) schema.Attribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func computedNumber(description string) schema.Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func computedTexts(description string) schema.Attribute {
	return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
}

func computedGroup(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: attributes}
}

func computedMap(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.MapNestedAttribute{
		Computed: true, MarkdownDescription: description,
		NestedObject: schema.NestedAttributeObject{Attributes: attributes},
	}
}

// withExpiry adds the expiry of a component's certificates.
func withExpiry(of string, attributes map[string]schema.Attribute) map[string]schema.Attribute {
	attributes["certificate_expires_at"] = computedText("Earliest expiry of " + of + " certificates, RFC 3339; " +
		"null if its machine cannot be observed.")
	attributes["certificate_days"] = computedNumber("Full days until then; negative afterwards.")
	return attributes
}

func controlPlaneComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"healthy": computedFlag("Whether there are no `issues`."),
		"issues": computedTexts("Detected problems, one sentence each, with the machine and the component. A " +
			"component that cannot be queried is an issue too, and so is a component that the arguments name and " +
			"that does not exist yet: set `depends_on` to the replicas, so that the data source is read after " +
			"them."),
		"summary": computedText("Summary in one line."),
		"virtual_ip": computedGroup("The address of the API.", map[string]schema.Attribute{
			"address": computedText("The virtual IP."),
			"holder":  computedText("The balancer that has it; null if none is observed with it, or several are."),
			"holders": computedTexts("All balancers that have it: more than one is an issue."),
			"additional_addresses": schema.MapAttribute{
				Computed: true, ElementType: types.ListType{ElemType: types.StringType},
				MarkdownDescription: "The other virtual IPs (`address6` and `additional_addresses` of the endpoint), each with " +
					"the balancers that have it: another one than `holder` is an issue.",
			},
		}),
		"balancers": computedMap("The machines of the endpoint, by name.", map[string]schema.Attribute{
			"address":   computedText("Address of the machine."),
			"reachable": computedFlag("Whether the machine could be observed."),
			"haproxy": computedText("State of HAProxy's unit as systemd reports it, such as `active`; " +
				"null if it is unknown or missing."),
			"keepalived":       computedText("State of keepalived's unit."),
			"holds_virtual_ip": computedFlag("Whether it has the virtual IP."),
			"backends": computedMap("The replicas as HAProxy reports them, by name.", map[string]schema.Attribute{
				"address": computedText("Address and port of the replica."),
				"status": computedText("Status in HAProxy: `UP`, `DOWN`, `DRAIN`, `MAINT`, `UP 1/3` (about to " +
					"go down)."),
				"check": computedText("Result of the last health check as HAProxy reports it, such as `L7OK` " +
					"or `L4CON`."),
				"sessions": computedNumber("Current number of connections."),
			}),
		}),
		"replicas": computedMap("The replicas that a balancer lists, and those observed on the machines of "+
			"the arguments, by name.", replicaStatusSchema()),
		"etcd_cluster": computedGroup("etcd, as its members report it. If no quorum answers, the members observed "+
			"on its machines.", etcdStatusSchema()),
		"authorities": computedMap("The CAs of `pki` that currently issue certificates: "+
			strings.Join([]string{"`kubernetes`", "`etcd`", "`front-proxy`"}, ", ")+".", map[string]schema.Attribute{
			"expires_at": computedText("Expiry of its certificate, RFC 3339."),
			"days":       computedNumber("Full days until then."),
		}),
	}
}

func replicaStatusSchema() map[string]schema.Attribute {
	return withExpiry("its", map[string]schema.Attribute{
		"address":    computedText("Address of its machine."),
		"reachable":  computedFlag("Whether the machine could be observed."),
		"version":    computedText("Version of the running or installed API server; null if it is unknown."),
		"healthy":    computedFlag("Whether all three components are ready. `false` also if they could not be queried."),
		"registered": computedFlag("Whether it is in rotation on every balancer that could be observed."),
		"components": computedMap("`kube-apiserver`, `kube-controller-manager`, `kube-scheduler` and, with "+
			"`konnectivity`, `kube-konnectivity-server`; empty if they could not be queried.", map[string]schema.Attribute{
			"healthy":                computedFlag("Whether it is ready."),
			"health":                 computedText("`ok`, or the reason why it is not ready."),
			"version":                computedText("Version of the running program; null if it is not running."),
			"certificate_expires_at": computedText("Earliest expiry of the certificates that it uses, RFC 3339."),
		}),
	})
}

func etcdStatusSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"leader": computedText("Name of the leader; null if there is none or it is unknown."),
		"cluster_version": computedText("Cluster version, which is the minor version that the members have agreed " +
			"on, such as `3.6`."),
		"voters":    computedNumber("Number of voting members; null if it is unknown."),
		"quorum":    computedNumber("Number of voters required for quorum."),
		"tolerates": computedNumber("Number of further members that may fail before quorum is lost."),
		"restore_drill": computedGroup("The last restore drill (`kube_etcd_restore_drill`) that a member's machine has "+
			"recorded; null if there is none. One that failed is an issue.", map[string]schema.Attribute{
			"member":          computedText("Name of the member on whose machine it ran."),
			"completed_at":    computedText("When it ended, RFC 3339."),
			"succeeded":       computedFlag("Whether it found everything in order."),
			"problem":         computedText("Why it failed; null if it succeeded."),
			"last_success_at": computedText("When a drill on that machine last succeeded, RFC 3339; null if none has."),
			"rto_seconds": schema.Float64Attribute{Computed: true, MarkdownDescription: "Time from its start until an API " +
				"server served the snapshot, in seconds; null if it failed."},
			"rpo_seconds": computedNumber("Age of the snapshot when it started, in seconds; null if it is unknown."),
		}),
		"members": computedMap("The members, by name.", withExpiry("its", map[string]schema.Attribute{
			"id":      computedText("ID of the member, hexadecimal."),
			"address": computedText("Address of its machine; null until it has served for the first time."),
			"reachable": computedFlag("Whether the machine could be observed; null if the argument `etcd` " +
				"does not name it."),
			"version": computedText("Version of the running server; null if it does not answer."),
			"healthy": computedFlag("Whether it answers and is connected to a quorum."),
			"leader":  computedFlag("Whether it is the leader."),
			"learner": computedFlag("Whether it is a learner, which has no vote."),
			"trouble": computedText("Why it is unhealthy; null if it is healthy."),
			"unit_state": computedText("State of `etcd.service` as systemd reports it, such as `active`, or of the static " +
				"pod in the same terms; null if its machine cannot be observed or the unit is missing."),
			"volume": computedText("Where the volume that moves with it is mounted (`volume` of `kube_etcd_member`); null if " +
				"it has none, or its machine cannot be observed."),
			"alarms":          computedTexts("Alarms raised for it, such as `NOSPACE`."),
			"db_size_bytes":   computedNumber("Size of its database in bytes."),
			"db_in_use_bytes": computedNumber("Size in use, which is the size after a defragmentation, in bytes."),
			"quota_bytes": computedNumber("Size at which etcd refuses writes, in bytes; null if there is no " +
				"quota or it is unknown."),
			"quota_used": schema.Float64Attribute{Computed: true, MarkdownDescription: "`db_size_bytes` as a " +
				"fraction of `quota_bytes`, from 0 to 1. A value of 0.8 or more is an issue."},
		})),
	}
}
