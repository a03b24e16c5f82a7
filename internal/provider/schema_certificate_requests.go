package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
)

func certificateRequestsSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "What an external signer, such as Vault or an HSM, has to sign: the certificate requests of an etcd member, a replica or a user, " +
			"for those authorities of the bundle whose key is held elsewhere (`key_held_elsewhere`). The private keys are made here and stay with the provider; " +
			"what was signed goes to the `signed` attribute of the member, the replica or the kubeconfig. " +
			"It exists in state only, and cannot be imported: its keys are in no other place, and new requests cost one more signature. A request stays the same until what it asks for changes, or another authority has to sign it.",
		Attributes: map[string]schema.Attribute{
			"pki":         bundleAttribute("which says whose key is held elsewhere"),
			"etcd_member": requestedMemberSchema(),
			"replica":     requestedReplicaSchema(),
			"user":        requestedUserSchema(),
			"requests":    requestsSchema(),
			"keys": schema.StringAttribute{
				Computed: true, Sensitive: true,
				MarkdownDescription: "The private keys of the requests, for the `signed` attribute of members, replicas and kubeconfigs: JSON, each key sealed as the provider's `seal` says.",
			},
			"sealed_for": sealedForSchema(),
		},
	}
}

// requestedAnew describes the effect of a change of the requested contents.
const requestedAnew = " A change creates the affected requests again, for the signer to sign; it changes no machine."

func requestedMemberSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "The `kube_etcd_member` whose certificates are requested. Default: none." + requestedAnew,
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("member name", etcd.ValidateName)},
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
		Optional:            true,
		MarkdownDescription: "The `kube_control_plane_replica` whose certificates are requested, those in its kubeconfigs included. Default: none." + requestedAnew,
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
			"service_cidrs": schema.ListAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Default:             listdefault.StaticValue(types.ListValueMust(types.StringType, []attr.Value{types.StringValue(defaultServiceCIDR)})),
				MarkdownDescription: "Its `service_cidrs`. Default `[\"" + defaultServiceCIDR + "\"]`.",
			},
			"cluster_domain": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(defaultDomain),
				Validators:          []validator.String{checked("cluster domain", component.ValidateDomain)},
				MarkdownDescription: "Its `cluster_domain`. Default `" + defaultDomain + "`.",
			},
			"extra_sans": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Its `extra_sans`. Default: none.",
			},
		},
	}
}

func requestedUserSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "The user of a `kube_kubeconfig` whose certificate is requested. Default: none." + requestedAnew,
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
		MarkdownDescription: "What has to be signed, by name: `etcd/server`, `etcd/peer` and `etcd/healthcheck-client` of a member; `apiserver`, `apiserver-kubelet-client`, " +
			"`front-proxy-client`, `apiserver-etcd-client`, `kubernetes-admin`, `system:kube-controller-manager`, `system:kube-scheduler` and `terraform-provider-kube` of a replica; " +
			"a user's name. The signer has to take over subject, names and usages, and to add none.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"request":       text("The certificate request (PKCS #10), PEM."),
			"authority":     text("Authority that has to sign it: `kubernetes`, `etcd` or `front-proxy`."),
			"signer":        text("SHA-256 fingerprint of that authority's certificate, hexadecimal. After a rotation it is another one, and the request is created again."),
			"common_name":   text("Common name of the subject."),
			"organizations": list("Organizations of the subject, which are groups to Kubernetes."),
			"dns_names":     list("Host names of the certificate."),
			"ip_addresses":  list("IP addresses of the certificate."),
			"usages":        list("Extended key usages of the certificate: `server auth`, `client auth`. A request cannot say them by itself."),
		}},
	}
}
