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
			MarkdownDescription: "Whether the machine has `/etc/kubernetes/admin.conf`, as with kubeadm: an " +
				"administrator's kubeconfig, which is valid for a year for everyone who can read it. Default " +
				"`true`. With `false`, the file does not exist, and `kube_kubeconfig` issues kubeconfigs with the " +
				"lifetime that you choose. A change restarts nothing: `false` removes the file (copies of it stay " +
				"valid until they expire or the CA is rotated), and `true` issues a new one.",
		},
		"verify_kubelets": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether the API server verifies the serving certificates of kubelets against the " +
				"Kubernetes CA (`--kubelet-certificate-authority`), for `kubectl logs`, `exec` and `port-forward`. Each kubelet " +
				"then needs a certificate of that CA: `serverTLSBootstrap: true` in its configuration (`kubelet_config` of " +
				"`kube_node_bootstrap`), and somebody who approves its requests, which Kubernetes does not do on its own; until " +
				"then these commands fail. Default `false`. A change restarts the API servers, one replica at a time; so do " +
				"the first and the last stage of a rotation of that CA.",
		},
		"maintenance": replicaMaintenanceSchema(),
		"liveness_probe": livenessSchema("A component that has failed eight probes in a row is restarted. " +
			"An API server is restarted only if etcd works and no other API server or member of the cluster was " +
			"restarted within four minutes; controller-manager and scheduler only if the API server of their " +
			"machine is ready."),
		"metrics": metricsSchema(),
		"resources": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Resource limits of the components. Default: none, because a limit that is too " +
				"low terminates an API server under load; measure first. A change restarts the component; for the " +
				"API server, the replica leaves rotation during the restart, one replica at a time.",
			Attributes: map[string]schema.Attribute{
				"apiserver":          limitsSchema("kube-apiserver"),
				"controller_manager": limitsSchema("kube-controller-manager"),
				"scheduler":          limitsSchema("kube-scheduler"),
			},
		},
		"supplementary_groups": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.ValueStringsAre(checked("group name", component.ValidateGroup))},
			MarkdownDescription: "Supplementary groups of the API server on the machine (`SupplementaryGroups=` " +
				"of its unit), such as the group that may open the socket of a KMS plugin. The groups must exist; " +
				"the provider checks that the socket can be opened before it changes anything. Default: none. A " +
				"change restarts the API servers, one replica at a time.",
		},
	}
}

func auditSchema() schema.Attribute {
	number := func(description string, value int) schema.Attribute {
		return schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, component.MaxAuditNumber)},
			MarkdownDescription: fmt.Sprintf("%s Default `%d`. A change restarts the API servers, one replica at "+
				"a time.", description, value),
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Audit log of the API server, in `/var/log/kube-apiserver/audit.log` on each " +
			"replica's machine. Enabled by default. It must be the same on all replicas. A change restarts the " +
			"API servers, one replica at a time. The plan refuses a flag `audit-…` in `extra_args` that " +
			"duplicates a setting here; other audit flags, such as those of a webhook, can be combined with it.",
		Attributes: map[string]schema.Attribute{
			"enabled": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether the provider configures auditing. Default `true`. With `false`, " +
					"only flags `audit-…` in `extra_args` configure it. A change restarts the API servers, one " +
					"replica at a time.",
			},
			"policy": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "YAML text of a `Policy` of `audit.k8s.io/v1`. Default: the built-in policy, " +
					"which is shown in the guide [Hardening](../guides/hardening.md). A change restarts the API " +
					"servers, one replica at a time.",
			},
			"max_age_days": number("Number of days for which a log file is kept.", component.DefaultAuditAge),
			"max_backups":  number("Number of rotated log files that are kept.", component.DefaultAuditBackups),
			"max_size_mb":  number("Size in megabytes at which the log file is rotated.", component.DefaultAuditSize),
		},
	}
}

func authenticationSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Authentication in addition to client certificates, service accounts and bootstrap " +
			"tokens. It must be the same on all replicas. By default, requests without credentials can only " +
			"access `/livez`, `/readyz` and `/healthz`. It cannot be combined with `authentication-config` or " +
			"`oidc-…` in `extra_args`: with one of these, the provider writes no configuration, and with " +
			"`oidc-…`, RBAC decides about requests without credentials. A change restarts the API servers, one " +
			"replica at a time.",
		Attributes: map[string]schema.Attribute{
			"jwt": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "YAML text of the list `jwt` of an " +
					"[AuthenticationConfiguration](https://kubernetes.io/docs/reference/access-authn-authz/authentication/" +
					"#using-authentication-configuration): " +
					"the OpenID Connect issuers whose tokens authenticate users. Default: none. A change restarts " +
					"the API servers, one replica at a time.",
			},
			"anonymous_paths": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Exact paths, in addition to the health paths, that are accessible without " +
					"credentials if RBAC allows them to `system:anonymous`. Default: none. `kubeadm join` with a " +
					"token, or with a discovery file without credentials, requires " +
					"`/api/v1/namespaces/kube-public/configmaps/cluster-info`. A change restarts the API servers, " +
					"one replica at a time.",
			},
		},
	}
}

// limitsSchema describes the limits of one unit.
func limitsSchema(unit string) schema.Attribute {
	memory := func(description string) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{checked("amount of memory", systemd.ValidateMemory)},
			MarkdownDescription: description + " In bytes, or with the suffix `K`, `M`, `G` or `T`, such as `4G`. " +
				"Default: no limit. A change restarts it.",
		}
	}
	weight := func(of string) schema.Attribute {
		return schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, systemd.MaxWeight)},
			MarkdownDescription: "Its relative weight for the " + of + " when they are contended. Other slices, such as " +
				"`system.slice` with all other services, have 100. Between 1 and 10000. Default: the machine's (100, within " +
				"`system.slice`). A change restarts it.",
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Limits of " + unit + ", and what is reserved for it (`memory_min`, `cpu_weight`, " +
			"`io_weight`). Default: none. With a memory limit, `GOMEMLIMIT` is set to nine tenths of the lower one. With a " +
			"reservation, it is in a systemd slice of its own, `" + systemd.Slice(unit) + "`. A change restarts it, on one " +
			"machine at a time. A reservation that is removed while another one stays is in effect until the machine starts " +
			"again.",
		Attributes: map[string]schema.Attribute{
			"memory_high": memory("Above this, it is throttled and its memory is reclaimed."),
			"memory_max":  memory("Above this, it is killed and restarted."),
			"cpu_quota": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("share of processors", systemd.ValidateCPU)},
				MarkdownDescription: "CPU time as a percentage of one CPU: `200%` is two CPUs. Default: no limit. " +
					"A change restarts it.",
			},
			"memory_min": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("amount of memory", systemd.ValidateReservation)},
				MarkdownDescription: "Memory that the kernel never reclaims from it, even under memory pressure. In bytes, " +
					"with the suffix `K`, `M`, `G` or `T`, or in percent of the machine's memory, such as `10%`. Without cgroup " +
					"v2, it has no effect. Default: nothing. A change restarts it.",
			},
			"cpu_weight": weight("processors"),
			"io_weight":  weight("disks"),
		},
	}
}
