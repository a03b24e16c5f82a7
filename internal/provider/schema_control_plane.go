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
)

func controlPlaneSchema(ctx context.Context) schema.Schema {
	attributes := askedSchema()
	attributes["fail_on"] = schema.SetAttribute{
		Optional: true, ElementType: types.StringType,
		Validators: []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(issueKinds...))},
		MarkdownDescription: "Kinds of issues that are an error: `unreachable` (a machine or a part that cannot be asked), `unhealthy` (one that was asked, and is not as it should be), " +
			"`expiring` (a certificate that ends within `certificate_days`). Default: none is, so that a failure never blocks the apply that repairs it. " +
			"With one of them, plans fail while such an issue lasts, plans to destroy included; within a `check` block an error is a warning.",
	}
	attributes["certificate_days"] = schema.Int64Attribute{
		Optional: true, Validators: []validator.Int64{int64validator.Between(0, 36500)},
		MarkdownDescription: "A certificate that ends in fewer days than this is an issue. Default `30`. The provider renews its own in the last third of their life.",
	}
	for name, attribute := range controlPlaneComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = lookLimit(timeouts.AttributesWithOpts(ctx, timeouts.Opts{
		ReadDescription: "Default `30s`. What has not answered by then is an issue. A dead machine takes `ssh.connect_timeout` of the provider to be known as such.",
	}))
	return schema.Schema{
		MarkdownDescription: "How is this control plane? Looks at the machines of etcd, of the endpoint's balancers and of the replicas that these list, and asks every component, all at once: " +
			"one command for each part on each machine, none of which changes anything. Whatever is down is listed in `issues`, and is an error only if `fail_on` says so: " +
			"let a `check` block assert `healthy`, and plans warn while scaling, repairs and destroys go on. Put the data source beside that block: " +
			"one within is planned to be read again in every apply, so that no plan is empty.",
		Attributes: attributes,
	}
}

// askedSchema describes how to query a whole control plane.
func askedSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"pki": schema.StringAttribute{
			Required: true, Sensitive: true,
			MarkdownDescription: "The `bundle` of the cluster's `kube_pki_bundle`: the certificates by which etcd and the API servers are asked are issued from it, for a few minutes.",
		},
		"signed": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "What an external signer signed, as `signed` of a `kube_control_plane_replica` has it, for authorities of the bundle whose key is held elsewhere. Default: none, and those cannot be asked.",
			Attributes: map[string]schema.Attribute{
				"keys":         schema.StringAttribute{Required: true, Sensitive: true, MarkdownDescription: "The `keys` of the `kube_certificate_requests` whose requests were signed."},
				"certificates": schema.MapAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "The certificates, PEM, by the names of `requests`."},
			},
		},
		"etcd": schema.SetAttribute{
			Required: true, ElementType: types.StringType,
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Client URLs of etcd: those of all members, so that it does not matter which one is down.",
		},
		"endpoint": schema.SingleNestedAttribute{
			Required:            true,
			MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`: its balancers list the replicas.",
			Attributes: map[string]schema.Attribute{
				"address":    schema.StringAttribute{Required: true, MarkdownDescription: "The virtual IP."},
				"port":       schema.Int64Attribute{Required: true, MarkdownDescription: "TCP port on the virtual IP."},
				"hosts":      schema.MapAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "Addresses of the balancers, by name."},
				"cluster_id": schema.StringAttribute{Optional: true, MarkdownDescription: "Id of the endpoint's cluster. Default: the cluster of `pki`."},
			},
		},
	}
}

// The kinds of computed attributes.

func seenText(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func seenFlag(description string) schema.Attribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func seenNumber(description string) schema.Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func seenTexts(description string) schema.Attribute {
	return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
}

func seenGroup(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: attributes}
}

func seenMap(description string, attributes map[string]schema.Attribute) schema.Attribute {
	return schema.MapNestedAttribute{Computed: true, MarkdownDescription: description, NestedObject: schema.NestedAttributeObject{Attributes: attributes}}
}

// seenEnd adds the expiry of a component's certificates.
func seenEnd(of string, attributes map[string]schema.Attribute) map[string]schema.Attribute {
	attributes["certificate_expires_at"] = seenText("When the first of " + of + " certificates ends, RFC 3339; null where its machine cannot be looked at.")
	attributes["certificate_days"] = seenNumber("Whole days until then; negative after it.")
	return attributes
}

func controlPlaneComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"healthy": seenFlag("Whether there are no `issues`."),
		"issues": seenTexts("All that is not as it should be, one sentence each, which names the machine and the part. What cannot be asked is an issue too, and so is what " +
			"the arguments name and is not there yet: give the data source `depends_on` the replicas to be read after them."),
		"summary": seenText("All of it in one line of text."),
		"virtual_ip": seenGroup("The address of the API.", map[string]schema.Attribute{
			"address": seenText("The virtual IP."),
			"holder":  seenText("The balancer that holds it; null where none is seen to, or several do."),
			"holders": seenTexts("All balancers that hold it: more than one is an issue."),
		}),
		"balancers": seenMap("The machines of the endpoint, by name.", map[string]schema.Attribute{
			"address":          seenText("Address of the machine."),
			"reachable":        seenFlag("Whether the machine could be looked at."),
			"haproxy":          seenText("State of HAProxy's unit in systemd's words, such as `active`; null where it is not known, or there is none."),
			"keepalived":       seenText("State of keepalived's unit."),
			"holds_virtual_ip": seenFlag("Whether it holds the virtual IP."),
			"backends": seenMap("The replicas as HAProxy sees them, by name.", map[string]schema.Attribute{
				"address":  seenText("Address and port of the replica."),
				"status":   seenText("In HAProxy's words: `UP`, `DOWN`, `DRAIN`, `MAINT`, `UP 1/3` (about to be down)."),
				"check":    seenText("Outcome of the last health check in HAProxy's words, such as `L7OK` or `L4CON`."),
				"sessions": seenNumber("Connections now."),
			}),
		}),
		"replicas":     seenMap("The replicas that a balancer lists, and those that are found on the machines of the arguments, by name.", seenReplicaSchema()),
		"etcd_cluster": seenGroup("etcd, by the word of its members. Where no quorum answers, the members that its machines hold.", seenEtcdSchema()),
		"authorities": seenMap("The authorities of `pki` that issue now: "+strings.Join([]string{"`kubernetes`", "`etcd`", "`front-proxy`"}, ", ")+".", map[string]schema.Attribute{
			"expires_at": seenText("When its certificate ends, RFC 3339."),
			"days":       seenNumber("Whole days until then."),
		}),
	}
}

func seenReplicaSchema() map[string]schema.Attribute {
	return seenEnd("its", map[string]schema.Attribute{
		"address":    seenText("Address of its machine."),
		"reachable":  seenFlag("Whether the machine could be looked at."),
		"version":    seenText("Version of the API server that runs, or would; null where it is not known."),
		"healthy":    seenFlag("Whether all three components are ready. `false` also where nobody could be asked."),
		"registered": seenFlag("Whether it is in rotation on every balancer that could be looked at."),
		"components": seenMap("`kube-apiserver`, `kube-controller-manager` and `kube-scheduler`; empty where nobody could be asked.", map[string]schema.Attribute{
			"healthy":                seenFlag("Whether it is ready."),
			"health":                 seenText("`ok`, or why it is not ready."),
			"version":                seenText("Version of the program that runs; null where none does."),
			"certificate_expires_at": seenText("When the first of the certificates that it uses ends, RFC 3339."),
		}),
	})
}

func seenEtcdSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"leader":          seenText("Name of the member that leads; null where none does or nobody tells."),
		"cluster_version": seenText("Minor version that the members have agreed on, such as `3.6`."),
		"voters":          seenNumber("How many members vote; null where nobody tells."),
		"quorum":          seenNumber("How many of them have to agree."),
		"tolerates":       seenNumber("How many more may fail before writes end."),
		"members": seenMap("The members, by name.", seenEnd("its", map[string]schema.Attribute{
			"id":              seenText("Id of the member, hexadecimal."),
			"address":         seenText("Address of its machine; null before it has served for the first time."),
			"reachable":       seenFlag("Whether the machine could be looked at; null where the argument `etcd` does not name it."),
			"version":         seenText("Version of the server that runs; null where it does not answer."),
			"healthy":         seenFlag("Whether it answers and is connected to a quorum."),
			"leader":          seenFlag("Whether it leads."),
			"learner":         seenFlag("Whether it is a learner, which does not vote."),
			"trouble":         seenText("Why it is not healthy; null if it is."),
			"unit_state":      seenText("systemd's state of `etcd.service`, such as `active`; null where its machine cannot be looked at, or there is none."),
			"alarms":          seenTexts("Alarms that are raised for it, such as `NOSPACE`."),
			"db_size_bytes":   seenNumber("Size of its database, bytes."),
			"db_in_use_bytes": seenNumber("What would be left of it after a defragmentation, bytes."),
			"quota_bytes":     seenNumber("Size at which etcd refuses writes, bytes; null where there is none, or it is not known."),
			"quota_used":      schema.Float64Attribute{Computed: true, MarkdownDescription: "`db_size_bytes` as a share of `quota_bytes`, from 0 to 1. From 0.8 on it is an issue."},
		})),
	}
}
