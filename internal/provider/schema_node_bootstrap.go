package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func nodeBootstrapSchema(ctx context.Context) schema.Schema {
	attributes := nodeBootstrapNetwork()
	for name, attribute := range nodeBootstrapComputed() {
		attributes[name] = attribute
	}
	attributes["pki"] = bundleAttribute("whose Kubernetes CA workers trust, and which issues a short-lived client " +
		"certificate for the API server. The bundle needs the key of that CA")
	attributes["endpoint"] = clusterEndpointSchema("workers connect to its address, and the objects are applied " +
		"through the replicas that it lists. A change of its address updates the objects; workers that have joined " +
		"keep the address in their files")
	attributes["version"] = schema.StringAttribute{
		Required: true, Validators: []validator.String{checked("Kubernetes version", release.ValidateVersion)},
		MarkdownDescription: "Kubernetes version of the control plane, such as `1.36.3`, for workers that join and for " +
			"`kubeadm upgrade node`. A change updates the objects; it is refused while a replica runs an older version, so " +
			"let this resource depend on all replicas.",
	}
	attributes["kubelet_config"] = schema.StringAttribute{
		Optional: true, Validators: []validator.String{checked("kubelet configuration", nodebootstrap.ValidateKubeletConfig)},
		MarkdownDescription: "Fields of a [KubeletConfiguration](https://kubernetes.io/docs/reference/config-api/" +
			"kubelet-config.v1beta1/) in YAML, which are merged into kubeadm's defaults. Default: none. A change updates the " +
			"ConfigMap `kubelet-config`: workers that join get it, and those that have joined with `kubeadm upgrade node`.",
	}
	attributes["discovery_by_file"] = schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: "Whether workers get the `discovery_file` of a `kube_bootstrap_token` (`kubeadm join " +
			"--discovery-file`) instead of reading `cluster-info` from the API server without credentials. " +
			"With `false`, every replica must have `" + nodebootstrap.ClusterInfoPath + "` in " +
			"`authentication.anonymous_paths`. Default `false`. A change creates or deletes the role that allows everybody to " +
			"read `cluster-info`. That of somebody else, such as kubeadm, is deleted with `adopt` only.",
	}
	attributes["adopt"] = schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(false),
		MarkdownDescription: "Whether objects that exist already and that somebody else manages, such as kubeadm, are " +
			"taken over. `kubeadm-config` and `kubelet-config` then keep each field that this resource does not set, such " +
			"as `etcd.external` and `certificatesDir`: such a field is no drift. In `kubelet-config`, kubeadm's defaults are " +
			"not set, and a field that leaves `kubelet_config` keeps its value. The rest is overwritten. Such objects stay " +
			"when this resource is destroyed. Default `false`: they are refused before the first change. A change back " +
			"to `false` removes what was kept, and the plan warns.",
	}
	attributes["timeouts"] = timeLimits(timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Default `5m`.", ReadDescription: "Default `1m`.", UpdateDescription: "Default `5m`.",
		DeleteDescription: "Default `5m`.",
	}))
	return schema.Schema{
		MarkdownDescription: "What `kubeadm join` of a worker reads from the control plane: the ConfigMaps `cluster-info`, " +
			"`kubeadm-config` and `kubelet-config`, and the roles and bindings for bootstrap tokens and kubelets, as " +
			"`kubeadm init` creates them. They are applied on the server by the field manager `terraform-provider-kube`; " +
			"fields that others add stay. The add-ons (kube-proxy, CoreDNS, a network plugin) are yours. An object that is " +
			"as configured is not written, so that a worker that is joining is not disturbed. It is not available with a " +
			"Kubernetes CA whose key is held elsewhere: nobody would sign the certificates of kubelets.",
		Attributes: attributes,
	}
}

func nodeBootstrapNetwork() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"service_cidrs": schema.ListAttribute{
			Optional: true, Computed: true, ElementType: types.StringType,
			Default: listdefault.StaticValue(types.ListValueMust(types.StringType,
				[]attr.Value{types.StringValue(defaultServiceCIDR)})),
			MarkdownDescription: "Address ranges of Services, as on the replicas. Default `[\"" + defaultServiceCIDR +
				"\"]`. A change updates the objects.",
		},
		"pod_cidrs": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Address ranges of Pods, as on the replicas. Default: none. A change updates the objects.",
		},
		"cluster_domain": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultDomain),
			Validators: []validator.String{checked("cluster domain", component.ValidateDomain)},
			MarkdownDescription: "DNS domain of the cluster, as on the replicas. Default `" + defaultDomain + "`. A change " +
				"updates the objects.",
		},
		"cluster_dns": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			Validators: []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(ipValidator())},
			MarkdownDescription: "Addresses of the cluster's DNS, which containers get. Default: the tenth address of the " +
				"first range of `service_cidrs`, as with kubeadm. A change updates the objects.",
		},
	}
}

func nodeBootstrapComputed() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": schema.StringAttribute{Computed: true, MarkdownDescription: "ID of the cluster."},
		"ca_cert_hashes": schema.ListAttribute{
			Computed: true, ElementType: types.StringType, MarkdownDescription: caCertHashes,
		},
		"discovery_file": schema.StringAttribute{
			Computed: true, MarkdownDescription: "Content of a file for `kubeadm join --discovery-file`, which contains " +
				"the endpoint and the CA and no secret. A worker needs a bootstrap token in addition " +
				"(`--tls-bootstrap-token`), and API servers that answer its request for `cluster-info` without credentials. " +
				"Where they refuse it, use the `discovery_file` of a `kube_bootstrap_token`.",
		},
		"drift": driftSchema("They are those of the objects: `ConfigMap kube-system/kubelet-config: kubelet: …`."),
	}
}

const caCertHashes = "Digests of the public keys of the Kubernetes CAs that are accepted now, for " +
	"`kubeadm join --discovery-token-ca-cert-hash`. During a rotation there are two, and one that matches is enough."

// clusterEndpointSchema describes the endpoint of resources that reach a cluster through its replicas.
func clusterEndpointSchema(use string) schema.Attribute {
	return schema.SingleNestedAttribute{
		Required:            true,
		MarkdownDescription: "The `registration` of the cluster's `kube_control_plane_endpoint`: " + use + ".",
		Attributes:          clusterEndpointArguments(),
	}
}

// clusterEndpointArguments are those of queryEndpointModel.
func clusterEndpointArguments() map[string]schema.Attribute {
	all, out := registrationArguments(), map[string]schema.Attribute{}
	for _, name := range []string{
		"address", "address6", "additional_addresses", "port", "hosts", "cluster_id", "kind", "target_port", "probe_from",
		"zone", "bgp", "kube_vip",
	} {
		out[name] = all[name]
	}
	return out
}
