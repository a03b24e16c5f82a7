package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Defaults of an external balancer's health check.
const (
	defaultCheckInterval  = "2s"
	defaultCheckThreshold = 3
)

var healthCheckTypes = map[string]attr.Type{
	"interval": types.StringType, "threshold": types.Int64Type, "healthy_threshold": types.Int64Type,
}

func externalSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "An address that others look after: a cloud's load balancer, a hardware balancer, a DNS " +
			"name. The provider registers nobody there. The balancer has to check each target by HTTPS with the path " +
			"`/readyz`, to send requests to those that answer with 200, and to pass connections through without ending " +
			"TLS. A stopping API server is not ready any more and serves until the balancer has noticed. What the " +
			"balancer needs is in `backend`. A replica counts as in rotation while it is ready. Default: none; " +
			"one of `haproxy`, `external`, `dns`, `bgp` and `kube_vip` is set. A change restarts nothing, except for " +
			"`health_check`.",
		Attributes: map[string]schema.Attribute{
			"targets": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
				MarkdownDescription: "IP addresses of the machines of all replicas, by the replicas' names. They are " +
					"observed before a replica leaves rotation. A change restarts nothing; replicas only record it.",
			},
			"target_port": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(6443),
				Validators: []validator.Int64{int64validator.Between(1, 65535)},
				MarkdownDescription: "The API servers' port on the targets, `port` of the replicas. Default `6443`. A change " +
					"restarts nothing.",
			},
			"health_check": schema.SingleNestedAttribute{
				Optional: true, Computed: true,
				Default: objectdefault.StaticValue(types.ObjectValueMust(healthCheckTypes, map[string]attr.Value{
					"interval": types.StringValue(defaultCheckInterval), "threshold": types.Int64Value(defaultCheckThreshold),
					"healthy_threshold": types.Int64Null(),
				})),
				MarkdownDescription: "How the balancer is set to check the targets. A stopping API server keeps serving " +
					"for `interval` times `threshold` (at most one minute) and two seconds. Wrong values lose requests. " +
					"Default: three checks, two seconds apart. A change of `interval` or `threshold` restarts the API servers, " +
					"one replica at a time.",
				Attributes: map[string]schema.Attribute{
					"interval": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString(defaultCheckInterval),
						PlanModifiers:       []planmodifier.String{sameDuration{}},
						Validators:          []validator.String{durationValidator()},
						MarkdownDescription: "Time between two checks of a target. Default `" + defaultCheckInterval + "`.",
					},
					"threshold": schema.Int64Attribute{
						Optional: true, Computed: true, Default: int64default.StaticInt64(defaultCheckThreshold),
						Validators: []validator.Int64{int64validator.AtLeast(1)},
						MarkdownDescription: "Failed checks in a row after which the balancer sends a target no more " +
							"requests. Default `3`.",
					},
					"healthy_threshold": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.Between(1, 3000)},
						MarkdownDescription: "Successful checks in a row after which the balancer sends a target requests. " +
							"A change of a replica ends `interval` times `healthy_threshold` (at most two minutes) after it is " +
							"ready, and only then the next one leaves rotation. Default: `threshold`. A change restarts nothing; " +
							"replicas only record it.",
					},
				},
			},
			"hooks": hooksSchema("Commands on the computer that runs Terraform, for a balancer that has to be told. " +
				"Each is a program with its arguments, and runs without a shell. It reads one line of JSON from its " +
				"standard input: `action`, `cluster_id`, `endpoint` (`address`, `port`) and `replica` (`name`, `address`, " +
				"`port`). It must allow to be repeated, and runs up to three times if it fails; its standard error is in " +
				"the error. It has the drain timeout and 30 seconds, and then ends with the programs that it has started. " +
				"Default: none. A change registers the replicas again and restarts nothing."),
			"probe_from": schema.StringAttribute{
				Optional: true, Validators: []validator.String{ipValidator()},
				MarkdownDescription: "Address of a machine from which the endpoint is probed, if the computer that runs " +
					"Terraform cannot reach it. Default: that computer. A change restarts nothing.",
			},
		},
	}
}

func hooksSchema(description string) schema.Attribute {
	command := func(description string) schema.Attribute {
		return schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: description + " Default: none. A change restarts nothing.",
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true, Validators: []validator.Object{returningHooks{}}, MarkdownDescription: description,
		Attributes: map[string]schema.Attribute{
			"register": command("Puts a replica that is ready into rotation, also after a drain. Without `status`, it is " +
				"run for all other replicas before one is drained, in case a drain was cut off."),
			"drain": command("Takes a replica out of rotation for new connections before it stops, and returns when " +
				"that is done. If it fails, `register` is run and nothing is stopped. Requires `register`."),
			"deregister": command("Removes a replica that is deleted, before it stops. If another replica has its " +
				"machine by then, `register` is run for that one afterwards."),
			"status": command("Writes `{\"in_rotation\": true}` or `{\"in_rotation\": false, \"reason\": \"…\"}`. It is " +
				"waited for after `register` and `drain`, instead of the detection time. A replica leaves rotation only " +
				"while it is true for all others, and a plan shows a replica that is out of rotation as drift."),
		},
	}
}

func externalBackendSchema() schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "What the balancer of an external endpoint needs, for the resources of its own provider. " +
			"Null for other kinds.",
		Attributes: map[string]schema.Attribute{
			"targets": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "`IP:port` of each target, by name.",
			},
			"health_check": schema.SingleNestedAttribute{
				Computed: true, MarkdownDescription: "The health check of each target.",
				Attributes: map[string]schema.Attribute{
					"protocol": text("`HTTPS`."),
					"path":     text("`/readyz`. The status 200 means ready."),
					"tls_name": text("A name in the serving certificate of every replica, for balancers that verify it."),
					"interval": text("As in `external.health_check`."),
					"threshold": schema.Int64Attribute{
						Computed: true, MarkdownDescription: "As in `external.health_check`.",
					},
					"healthy_threshold": schema.Int64Attribute{
						Computed: true, MarkdownDescription: "As in `external.health_check`, or `threshold`.",
					},
				},
			},
		},
	}
}
