package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// replicaHardening describes what a replica logs, which clients it admits and which resources
// of its machine it may use.
func replicaHardening() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"audit": auditSchema(), "authentication": authenticationSchema(),
		"admin_conf": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the machine has `/etc/kubernetes/admin.conf`, as with kubeadm: an administrator's kubeconfig, which is good for a year for whoever reads it. Default `true`. " +
				"With `false` nobody finds one there, and `kube_kubeconfig` issues those that people need, as short-lived as you like. " +
				"A change restarts nothing: to `false` it removes the file (a copy of it stays valid until it ends, or until the authority is rotated), to `true` it issues another one.",
		},
		"resources": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Limits of what the components may take of the machine. Default: none, because a limit that is too low ends an API server when the cluster needs it most; " +
				"measure first. A change restarts the component; for the API server the replica leaves rotation meanwhile, one replica at a time.",
			Attributes: map[string]schema.Attribute{
				"apiserver":          limitsSchema("kube-apiserver"),
				"controller_manager": limitsSchema("kube-controller-manager"),
				"scheduler":          limitsSchema("kube-scheduler"),
			},
		},
		"supplementary_groups": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.ValueStringsAre(checked("group name", component.ValidateGroup))},
			MarkdownDescription: "Groups of the machine whose rights the API server has beside its own (`SupplementaryGroups=` of its unit): those that may open the socket of a KMS plugin. " +
				"They must be there; whether the socket can be opened is seen before anything is changed. Default: none. A change restarts the API servers, one replica at a time.",
		},
	}
}

func auditSchema() schema.Attribute {
	number := func(description string, value int) schema.Attribute {
		return schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, component.MaxAuditNumber)},
			MarkdownDescription: fmt.Sprintf("%s Default `%d`. A change restarts the API servers, one replica at a time.", description, value),
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "What the API server logs of the requests it gets, in `/var/log/kube-apiserver/audit.log` on each replica's machine. On by default. The same on every replica. A change restarts the API servers, one replica at a time. " +
			"Where a flag `audit-…` of `extra_args` says the same thing as a setting here, the plan refuses it; other such flags work beside it (a webhook, say).",
		Attributes: map[string]schema.Attribute{
			"enabled": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether the provider sets auditing up. Default `true`. With `false` there is none but what flags `audit-…` of `extra_args` make. " +
					"A change restarts the API servers, one replica at a time.",
			},
			"policy": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "YAML text of a `Policy` of `audit.k8s.io/v1`. Default: the built-in policy, which the guide [Hardening](../guides/hardening.md) shows. " +
					"A change restarts the API servers, one replica at a time.",
			},
			"max_age_days": number("For how many days a file of the log is kept.", component.DefaultAuditAge),
			"max_backups":  number("How many files of the log are kept beside the one that is written.", component.DefaultAuditBackups),
			"max_size_mb":  number("At which size, in megabytes, a new file is begun.", component.DefaultAuditSize),
		},
	}
}

func authenticationSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Who may log in beside client certificates, service accounts and bootstrap tokens. The same on every replica. " +
			"By default requests without credentials reach `/livez`, `/readyz` and `/healthz` only. " +
			"Not beside `authentication-config` or `oidc-…` in `extra_args`: with one of these the provider writes no configuration, and `oidc-…` leaves requests without credentials to RBAC. " +
			"A change restarts the API servers, one replica at a time.",
		Attributes: map[string]schema.Attribute{
			"jwt": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "YAML text of the list `jwt` of an [AuthenticationConfiguration](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration): " +
					"the OpenID Connect issuers whose tokens log users in. Default: none. A change restarts the API servers, one replica at a time.",
			},
			"anonymous_paths": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Paths, each for itself alone, that are open without credentials beside the health paths, as far as RBAC lets `system:anonymous`. Default: none. " +
					"`kubeadm join` with a token, or with a discovery file without credentials, needs `/api/v1/namespaces/kube-public/configmaps/cluster-info`. A change restarts the API servers, one replica at a time.",
			},
		},
	}
}

// limitsSchema describes the limits of one unit.
func limitsSchema(unit string) schema.Attribute {
	memory := func(description string) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{checked("amount of memory", systemd.ValidateMemory)},
			MarkdownDescription: description + " Bytes, or with `K`, `M`, `G` or `T`, such as `4G`. Default: no limit. A change restarts it.",
		}
	}
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "Limits of " + unit + ". Default: none. With one of memory, Go's collector keeps to nine tenths of the lower one (`GOMEMLIMIT`). A change restarts it, on one machine at a time.",
		Attributes: map[string]schema.Attribute{
			"memory_high": memory("Above this it is slowed and its memory reclaimed."),
			"memory_max":  memory("Above this it is killed, and started again."),
			"cpu_quota": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("share of processors", systemd.ValidateCPU)},
				MarkdownDescription: "Share of processor time, in percent of one processor: `200%` is two. Default: no limit. A change restarts it.",
			},
		},
	}
}
