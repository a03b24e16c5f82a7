package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
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

// listenAll is the value of listen with which an API server listens on all addresses.
const listenAll = "all"

func replicaSchema(ctx context.Context) schema.Schema {
	attributes := replicaArguments()
	for name, attribute := range replicaNetwork() {
		attributes[name] = attribute
	}
	for name, attribute := range replicaHardening() {
		attributes[name] = attribute
	}
	for name, attribute := range replicaRuntime() {
		attributes[name] = attribute
	}
	attributes["konnectivity"] = konnectivitySchema()
	for name, attribute := range replicaFiles() {
		attributes[name] = attribute
	}
	for name, attribute := range replicaComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `10m`, which includes installation, start, readiness and registration.",
		ReadDescription:   "Default `1m`.",
		UpdateDescription: "Default `1h`: replicas change one at a time, so the last one waits for all others.",
		DeleteDescription: "Default `10m`, which includes draining.",
	}))
	return schema.Schema{
		Version: 1,
		MarkdownDescription: "One replica of the control plane: kube-apiserver, kube-controller-manager and " +
			"kube-scheduler on one machine, as systemd units under separate users, or as static pods, with " +
			"kubeadm's files, flags and kubeconfigs. It joins the endpoint's rotation when all three components are " +
			"ready, and leaves it before any of them stops.",
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
		"host":                 hostSchema("on which the replica runs"),
		"endpoint":             replicaEndpointSchema(),
		"additional_endpoints": additionalEndpointsSchema(),
		"etcd": schema.SetAttribute{
			Required: true, ElementType: types.StringType,
			Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Client URLs of etcd: that of the member on the same machine (stacked), or those " +
				"of all members (external). A change takes the replicas out of rotation and restarts their API " +
				"servers, one replica at a time.",
		},
		"pki":    bundleAttribute("from which the replica's certificates are issued"),
		"signed": signedSchema(),
		"early_renewal": earlyRenewalSchema("A certificate that is due is listed in `drift`, and the next apply " +
			"renews it. The API server reloads its certificates without a restart; kube-controller-manager and " +
			"kube-scheduler are restarted when the certificates in their kubeconfigs are renewed."),
		"version": schema.StringAttribute{
			Required:   true,
			Validators: []validator.String{checked("Kubernetes version", release.ValidateVersion)},
			MarkdownDescription: "Kubernetes version, such as `1.36.3`. A change takes the replicas out of " +
				"rotation and restarts them, one at a time. The plan refuses a version that etcd, the other " +
				"replicas or the kubelets do not allow.",
		},
		"extra_args": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Additional flags of the components, without dashes. Default: none. They take " +
				"precedence over the provider's flags; plugins in `enable-admission-plugins` are added to the " +
				"provider's. A change restarts the component; for the API server, the replica leaves rotation " +
				"during the restart, one replica at a time.",
			Attributes: map[string]schema.Attribute{
				"apiserver":          extraArgsSchema("kube-apiserver"),
				"controller_manager": extraArgsSchema("kube-controller-manager"),
				"scheduler":          extraArgsSchema("kube-scheduler"),
			},
		},
		"repeated_args": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Additional flags that are given once for each of their values, without dashes: " +
				"`service-account-issuer`, `tls-sni-cert-key`, `oidc-required-claim` and `allow-metric-labels`. " +
				"The order of the values is preserved: the first issuer signs new service-account tokens, and " +
				"tokens of all issuers are accepted (see [Changing the " +
				"issuer](../guides/rotation.md#changing-the-issuer-of-service-account-tokens)). " +
				"Default: none. A flag can be set either here or in " +
				"`extra_args`. A change restarts the component; for the API server, the replica leaves rotation " +
				"during the restart, one replica at a time.",
			Attributes: map[string]schema.Attribute{
				"apiserver":          repeatedArgsSchema("kube-apiserver"),
				"controller_manager": repeatedArgsSchema("kube-controller-manager"),
				"scheduler":          repeatedArgsSchema("kube-scheduler"),
			},
		},
		"environment": replicaEnvironmentSchema(),
	}
}

func repeatedArgsSchema(component string) schema.Attribute {
	return schema.MapAttribute{
		Optional: true, ElementType: types.ListType{ElemType: types.StringType},
		MarkdownDescription: "Flags of " + component + " that repeat, each with its values. Default: none.",
	}
}

func extraArgsSchema(component string) schema.Attribute {
	return schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Flags of " +
		component + ". Default: none."}
}

func replicaEndpointSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Required: true,
		MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`. A change " +
			"registers the replica on added balancers and restarts nothing; with a new address, the API server " +
			"gets a certificate for it, which it reloads on its own.",
		Attributes: registrationArguments(),
	}
}

// registeredAddressesSchema is that of Registration.Further.
func registeredAddressesSchema() schema.Attribute {
	return schema.ListAttribute{
		Optional: true, ElementType: types.StringType,
		MarkdownDescription: "Further virtual IPs of the endpoint. Default: none.",
	}
}

// registrationArguments are those of endpoint.Registration.
func registrationArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"address": schema.StringAttribute{Required: true, MarkdownDescription: "The endpoint's address."},
		"address6": schema.StringAttribute{Optional: true, MarkdownDescription: "The second virtual IP of a " +
			"dual-stack endpoint. Default: none."},
		"additional_addresses": registeredAddressesSchema(),
		"port":                 schema.Int64Attribute{Required: true, MarkdownDescription: "TCP port at the address."},
		"hosts": schema.MapAttribute{
			Required: true, ElementType: types.StringType,
			MarkdownDescription: "Addresses of the balancers, or of the targets of an endpoint without any, by name.",
		},
		"kind": schema.StringAttribute{
			Optional:            true,
			Validators:          []validator.String{stringvalidator.OneOf(kindNames()...)},
			MarkdownDescription: "`haproxy`, `external`, `dns`, `bgp` or `kube_vip`. Default: none, which is `haproxy`.",
		},
		"zone":     replicaZoneSchema(),
		"bgp":      replicaAnnouncementSchema(),
		"kube_vip": replicaElectionSchema(),
		"target_port": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "The API servers' port behind an endpoint without balancers. Default: none.",
		},
		"hooks": hooksSchema("As in `external` of the endpoint. Default: none. A change registers the replica again " +
			"and restarts nothing."),
		"detection_time": schema.StringAttribute{
			Optional: true, Validators: []validator.String{durationValidator()},
			MarkdownDescription: "Longest time until an external balancer stops sending requests to a replica that is no " +
				"longer ready, such as `6s`. Default: none. `--shutdown-delay-duration` of the API server exceeds it. A " +
				"change restarts the API servers, one replica at a time.",
		},
		"healthy_time": schema.StringAttribute{
			Optional: true, Validators: []validator.String{durationValidator()},
			MarkdownDescription: "Longest time until an external balancer sends requests to a replica that has become " +
				"ready, such as `10s`. Default: `detection_time`. A change restarts nothing.",
		},
		"probe_from": schema.StringAttribute{
			Optional: true, MarkdownDescription: "Address of the machine from which an external endpoint is probed, or " +
				"the name servers of a dns endpoint are asked. Default: none.",
		},
		"drain_timeout": schema.StringAttribute{
			Required: true, Validators: []validator.String{durationValidator()},
			MarkdownDescription: "How long a replica that leaves rotation keeps its existing sessions, such as `10s`.",
		},
		"verify_ca": schema.BoolAttribute{Required: true, MarkdownDescription: "Whether health checks " +
			"verify the replica's certificate."},
		"cluster_id": schema.StringAttribute{Optional: true, MarkdownDescription: "ID of the endpoint's " +
			"cluster: a balancer of another cluster refuses the replica. Default: the cluster of `pki`. The " +
			"plan refuses any other cluster."},
	}
}

func replicaNetwork() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"port": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(6443),
			Validators: []validator.Int64{int64validator.Between(1, 65535)},
			MarkdownDescription: "TCP port of the API server on the machine's own address. Default `6443`. A " +
				"change takes the replicas out of rotation and restarts all three components, one replica at a " +
				"time. With an endpoint of the kind `dns`, `bgp` or `kube_vip`, it is the endpoint's `port` and cannot be " +
				"changed; with `external`, it is the `target_port`. The plan refuses another one.",
		},
		"listen": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.OneOf(listenAll)},
			MarkdownDescription: "Where the API server listens: `all` is all addresses of the machine, for clients in " +
				"another network of the machine. List its addresses there in `extra_sans`. Default: the machine's own " +
				"address; all addresses with an endpoint of the kind `bgp` or `kube_vip`, which needs them. The plan refuses " +
				"`all` if HAProxy of an endpoint uses the same port on the same machine. A change takes the replicas out of " +
				"rotation and restarts their API servers, one replica at a time.",
		},
		"service_cidrs": schema.ListAttribute{
			Optional: true, Computed: true, ElementType: types.StringType,
			Default: listdefault.StaticValue(types.ListValueMust(types.StringType,
				[]attr.Value{types.StringValue(defaultServiceCIDR)})),
			MarkdownDescription: "Address range of Services, two for dual stack: Services with one address get it " +
				"from the first range, which has the family of `host.address`. Default `[\"" + defaultServiceCIDR + "\"]`. " +
				"It must be the same on all replicas. A change restarts the API servers (and kube-controller-manager if " +
				"`pod_cidrs` is set), one replica at a time, with a certificate for the first address of the new range; " +
				"Services keep their addresses.",
		},
		"pod_cidrs": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Address range of pods, two for dual stack, in the order of `service_cidrs`; " +
				"kube-controller-manager then allocates a range for each node. Default: none; no ranges are " +
				"allocated. It must be the same on all replicas. A change restarts kube-controller-manager, one " +
				"replica at a time; nodes keep their ranges.",
		},
		"cluster_domain": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultDomain),
			Validators: []validator.String{checked("cluster domain", component.ValidateDomain)},
			MarkdownDescription: "DNS domain of the cluster. Default `" + defaultDomain + "`. It must be the same " +
				"on all replicas. A change restarts the API servers, one replica at a time. It also changes the " +
				"issuer of service-account tokens: existing tokens are rejected afterwards, " +
				"unless `repeated_args` lists the former issuer, too.",
		},
		"extra_sans": schema.SetAttribute{
			Optional: true, ElementType: types.StringType, Validators: []validator.Set{hostsValidator()},
			MarkdownDescription: "Additional names and addresses for the API server's certificate. Default: none. " +
				"A change issues a new certificate, which the API server reloads without a restart.",
		},
	}
}

func replicaComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the replica."},
		"registered": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the replica " +
			"is in rotation on every balancer. It keeps its value, with a warning, while the endpoint does not say."},
		"machine_id":             machineIDSchema(),
		"config_digest":          digestSchema(),
		"certificate_expires_at": expirySchema("the replica's certificates"),
		"drift":                  driftSchema(""),
	}
}
