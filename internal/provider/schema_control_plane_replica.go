package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// defaultServiceCIDR is the default of kubeadm.
const defaultServiceCIDR = "10.96.0.0/12"

const defaultDomain = "cluster.local"

func replicaSchema(ctx context.Context) schema.Schema {
	attributes := replicaArguments()
	for name, attribute := range replicaNetwork() {
		attributes[name] = attribute
	}
	for name, attribute := range replicaHardening() {
		attributes[name] = attribute
	}
	for name, attribute := range replicaComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `10m`: installing, starting, readiness, registration.",
		ReadDescription:   "Default `1m`.",
		UpdateDescription: "Default `20m`: replicas change one at a time, so the last one waits for all others.",
		DeleteDescription: "Default `10m`: draining included.",
	}))
	return schema.Schema{
		Version: 1,
		MarkdownDescription: "One replica of the control plane: kube-apiserver, kube-controller-manager and kube-scheduler on one machine, as systemd units under users of their own, " +
			"with kubeadm's files, flags and kubeconfigs. It enters the endpoint's rotation when all three are ready, and leaves it before anything of it stops.",
		Attributes: attributes,
	}
}

func replicaArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{checked("replica name", component.ValidateName)},
			MarkdownDescription: "Name of the replica, unique in its cluster. A change replaces the replica.",
		},
		"host":     hostSchema("on which the replica runs"),
		"endpoint": replicaEndpointSchema(),
		"etcd": schema.SetAttribute{
			Required: true, ElementType: types.StringType,
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Client URLs of etcd: the member on the same machine (stacked), or all members (external). A change takes the replicas out of rotation and restarts their API servers, one replica at a time.",
		},
		"pki":    bundleAttribute("from which the replica's certificates are issued"),
		"signed": signedSchema(),
		"early_renewal": earlyRenewalSchema("A certificate that is due shows up in `drift`; the next apply renews it. The API server loads its own without a restart; " +
			"kube-controller-manager and kube-scheduler are restarted when theirs, which are in their kubeconfigs, are renewed."),
		"version": schema.StringAttribute{
			Required:   true,
			Validators: []validator.String{checked("Kubernetes version", release.ValidateVersion)},
			MarkdownDescription: "Kubernetes version, such as `1.36.3`. A change takes the replicas out of rotation and restarts them, one at a time. " +
				"What etcd, the other replicas or the kubelets do not allow is refused in the plan.",
		},
		"extra_args": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Further flags of the components, without dashes. Default: none. They win over the provider's; plugins in `enable-admission-plugins` are added to the provider's. A change restarts the component; " +
				"for the API server the replica leaves rotation meanwhile, one replica at a time.",
			Attributes: map[string]schema.Attribute{
				"apiserver":          extraArgsSchema("kube-apiserver"),
				"controller_manager": extraArgsSchema("kube-controller-manager"),
				"scheduler":          extraArgsSchema("kube-scheduler"),
			},
		},
	}
}

func extraArgsSchema(component string) schema.Attribute {
	return schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Flags of " + component + ". Default: none."}
}

func replicaEndpointSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Required:            true,
		MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`. A change enters the replica where it is new and restarts nothing; with another address the API server gets a certificate for it, which it loads by itself.",
		Attributes: map[string]schema.Attribute{
			"address":       schema.StringAttribute{Required: true, MarkdownDescription: "The virtual IP."},
			"port":          schema.Int64Attribute{Required: true, MarkdownDescription: "TCP port on the virtual IP."},
			"hosts":         schema.MapAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "Addresses of the balancers, by name."},
			"drain_timeout": schema.StringAttribute{Required: true, Validators: []validator.String{durationValidator()}, MarkdownDescription: "How long a replica that leaves may keep its sessions, such as `10s`."},
			"verify_ca":     schema.BoolAttribute{Required: true, MarkdownDescription: "Whether health checks verify the replica's certificate."},
			"cluster_id":    schema.StringAttribute{Optional: true, MarkdownDescription: "Id of the endpoint's cluster: a balancer of another one refuses the replica. Default: the cluster of `pki`. Any other one is refused in the plan."},
		},
	}
}

func replicaNetwork() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"port": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(6443),
			Validators:          []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "TCP port of the API server on the machine's own address. Default `6443`. A change takes the replicas out of rotation and restarts all three components, one replica at a time.",
		},
		"service_cidrs": schema.ListAttribute{
			Optional: true, Computed: true, ElementType: types.StringType,
			Default:             listdefault.StaticValue(types.ListValueMust(types.StringType, []attr.Value{types.StringValue(defaultServiceCIDR)})),
			MarkdownDescription: "Address range of services, two for dual stack: the first one is that of Services with one address. Default `[\"" + defaultServiceCIDR + "\"]`. The same on every replica. A change restarts the API servers (and kube-controller-manager where there are `pod_cidrs`), one replica at a time, with a certificate for the new range's first address; Services keep the addresses that they have.",
		},
		"pod_cidrs": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Address range of pods, two for dual stack, in the order of `service_cidrs`: the controller manager then allocates each node's part. Default: none, and it allocates nothing. The same on every replica. A change restarts kube-controller-manager, one replica at a time; nodes keep the ranges that they have.",
		},
		"cluster_domain": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultDomain),
			Validators: []validator.String{checked("cluster domain", component.ValidateDomain)},
			MarkdownDescription: "DNS domain of the cluster. Default `" + defaultDomain + "`. The same on every replica. " +
				"A change restarts the API servers, one replica at a time. It changes the issuer of service-account tokens too: those from before are refused from then on.",
		},
		"extra_sans": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Further names and addresses for the API server's certificate. Default: none. A change issues a new one, which the API server loads without a restart.",
		},
	}
}

func replicaComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":                     schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the replica."},
		"registered":             schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the replica is in rotation on every balancer."},
		"machine_id":             machineIDSchema(),
		"config_digest":          digestSchema(),
		"certificate_expires_at": expirySchema("the replica's certificates"),
		"drift":                  driftSchema(""),
	}
}
