package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

func certificateRequestsSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Certificate requests of an etcd member, a replica or a user for an external signer, " +
			"such as Vault or an HSM, for those CAs of the bundle whose key is external (`key_held_elsewhere`). " +
			"The provider generates and keeps the private keys; the signed certificates are passed to the " +
			"`signed` attribute of the member, the replica or the kubeconfig. The resource exists only in the " +
			"state and cannot be imported: its keys are in no other place, and new requests only need to be " +
			"signed again. A request stays the same until its content or the CA that has to sign it changes.",
		Attributes: map[string]schema.Attribute{
			"pki":         bundleAttribute("which names the CAs with an external key"),
			"etcd_member": requestedMemberSchema(),
			"replica":     requestedReplicaSchema(),
			"user":        requestedUserSchema(),
			"requests":    requestsSchema(),
			"keys": schema.StringAttribute{
				Computed: true, Sensitive: true,
				MarkdownDescription: "Private keys of the requests, for the `signed` attribute of members, " +
					"replicas and kubeconfigs: JSON, with each key sealed according to the provider's `seal`.",
			},
			"sealed_for": sealedForSchema(),
		},
	}
}

// requestEffect describes the effect of a change of the requested contents.
const requestEffect = " A change creates the affected requests again, so they must be signed again; it does not " +
	"affect any machine."

func requestedMemberSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "The `kube_etcd_member` whose certificates are requested. Default: none." + requestEffect,
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("member name", machine.ValidateName)},
				MarkdownDescription: "Its `name`.",
			},
			"address": requestedAddressSchema(),
		},
	}
}

func requestedAddressSchema() schema.Attribute {
	return schema.StringAttribute{
		Required: true, Validators: []validator.String{ipValidator()},
		MarkdownDescription: "Its `host.address`.",
	}
}

// requestedReplicaSchema has the same defaults as the replica.
func requestedReplicaSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "The `kube_control_plane_replica` whose certificates are requested, including those " +
			"in its kubeconfigs. Default: none." + requestEffect,
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("replica name", component.ValidateName)},
				MarkdownDescription: "Its `name`.",
			},
			"address": requestedAddressSchema(),
			"endpoint": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "The `address` of its `kube_control_plane_endpoint`.",
			},
			"endpoint6": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "The `haproxy.address6` of its `kube_control_plane_endpoint`. Default: none.",
			},
			"additional_addresses": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				Validators: []validator.List{listvalidator.SizeAtLeast(1)},
				MarkdownDescription: "The `haproxy.additional_addresses` of its `kube_control_plane_endpoint`, and the " +
					"addresses of its `additional_endpoints`. Default: none.",
			},
			"kube_vip": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether its `kube_control_plane_endpoint` has `kube_vip` with the mode " +
					"`arp`: kube-vip has a certificate of " +
					"its own. Default: none, which is `false`.",
			},
			"service_cidrs": schema.ListAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Default: listdefault.StaticValue(types.ListValueMust(types.StringType,
					[]attr.Value{types.StringValue(defaultServiceCIDR)})),
				MarkdownDescription: "Its `service_cidrs`. Default `[\"" + defaultServiceCIDR + "\"]`.",
			},
			"cluster_domain": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultDomain),
				Validators:          []validator.String{checked("cluster domain", component.ValidateDomain)},
				MarkdownDescription: "Its `cluster_domain`. Default `" + defaultDomain + "`.",
			},
			"extra_sans": schema.SetAttribute{
				Optional: true, ElementType: types.StringType, Validators: []validator.Set{hostsValidator()},
				MarkdownDescription: "Its `extra_sans`. Default: none.",
			},
		},
	}
}

func requestedUserSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "The user of a `kube_kubeconfig` whose certificate is requested. Default: none." + requestEffect,
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultUser),
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Its `user`. Default `" + defaultUser + "`.",
			},
			"groups": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType, Default: setdefault.StaticValue(defaultGroups),
				MarkdownDescription: "Its `groups`. Default `[\"kubeadm:cluster-admins\"]`.",
			},
		},
	}
}

func requestsSchema() schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	list := func(description string) schema.Attribute {
		return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
	}
	return schema.MapNestedAttribute{
		Computed: true,
		MarkdownDescription: "The requests to sign, by name: `etcd/server`, `etcd/peer` and " +
			"`etcd/healthcheck-client` of a member; `apiserver`, `apiserver-kubelet-client`, " +
			"`front-proxy-client`, `apiserver-etcd-client`, `kubernetes-admin`, `system:kube-controller-manager`, " +
			"`system:kube-scheduler` and `terraform-provider-kube` of a replica; the name of a user. The signed " +
			"certificate must have exactly the subject, names and usages of the request.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"request":   text("The certificate request (PKCS #10), PEM."),
			"authority": text("CA that must sign it: `kubernetes`, `etcd` or `front-proxy`."),
			"signer": text("SHA-256 fingerprint of that CA's certificate, hexadecimal. It changes with a " +
				"rotation, which creates the request again."),
			"common_name":   text("Common name of the subject."),
			"organizations": list("Organizations of the subject, which are groups in Kubernetes."),
			"dns_names":     list("Host names of the certificate."),
			"ip_addresses":  list("IP addresses of the certificate."),
			"usages": list("Extended key usages of the certificate: `server auth`, `client auth`. The " +
				"request itself does not contain them."),
		}},
	}
}
