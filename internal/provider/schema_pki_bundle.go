package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func pkiBundleSchema() schema.Schema {
	attributes := pkiBundleArguments()
	for name, attribute := range pkiBundleOutputs() {
		attributes[name] = attribute
	}
	return schema.Schema{
		MarkdownDescription: "The PKI of one cluster: the Kubernetes, etcd and front-proxy certificate authorities, the service-account keys and the keys of encryption at rest, " +
			"as kubeadm would make them, or brought along. Each of them rotates in stages without downtime. It exists in state only; destroying it forgets the keys.",
		Attributes: attributes,
	}
}

func pkiBundleArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_name": schema.StringAttribute{
			Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{checked("cluster name", pki.ValidateClusterName)},
			MarkdownDescription: "Name of the cluster, as kubeconfigs show it. A change replaces the bundle by a new one, and with it the cluster.",
		},
		"key_algorithm": schema.StringAttribute{
			Optional: true, Computed: true,
			Default: stringdefault.StaticString(string(pki.ECDSAP256)),
			Validators: []validator.String{stringvalidator.OneOf(
				string(pki.ECDSAP256), string(pki.ECDSAP384), string(pki.RSA2048), string(pki.RSA3072), string(pki.RSA4096))},
			MarkdownDescription: "Algorithm of new keys, leaf certificates' included: `ECDSA-P256` (the default), `ECDSA-P384`, `RSA-2048`, `RSA-3072` or `RSA-4096`. " +
				"A change counts for what is made from then on: leaf certificates when they are renewed, authorities when they are rotated.",
		},
		"ca_validity": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:             stringdefault.StaticString("87600h"),
			PlanModifiers:       []planmodifier.String{sameDuration{}},
			Validators:          []validator.String{durationValidator()},
			MarkdownDescription: "Life of new authorities. Default `87600h`, ten years, as kubeadm has it. A change counts for the next rotation.",
		},
		"deletion_protection": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the cluster must not end. While it is on, the last voting member of etcd, the last serving replica, the endpoint under it and the bundle itself cannot be destroyed or replaced. " +
				"Default `true`. To destroy a cluster, set it to `false`, apply, then destroy. A change touches no machine.",
		},
		"rotation":        rotationSchema(),
		"encryption":      encryptionSchema(),
		"ca":              authoritySchema("Kubernetes", "kubernetes"),
		"etcd_ca":         authoritySchema("etcd", "etcd"),
		"front_proxy_ca":  authoritySchema("front-proxy", "front_proxy"),
		"service_account": serviceAccountSchema(),
	}
}

// rotationSchema has one number for each part: the stage of its rotation.
func rotationSchema() schema.Attribute {
	numbers := map[string]attr.Value{}
	kinds := map[string]attr.Type{}
	attributes := map[string]schema.Attribute{}
	for part, words := range map[pki.Part]string{
		pki.KubernetesPart:     "the Kubernetes authority: trust the next one too, issue from it, drop the previous one",
		pki.EtcdPart:           "the etcd authority: trust the next one too, issue from it, drop the previous one",
		pki.FrontProxyPart:     "the front-proxy authority: trust the next one too, issue from it, drop the previous one",
		pki.ServiceAccountPart: "the service-account keys: publish the next one, sign with it, retire the previous one",
		pki.EncryptionPart:     "the encryption at rest: read the next one too, write with it and rewrite what is stored, drop the previous one",
	} {
		name := part.Attribute()
		numbers[name], kinds[name] = types.Int64Value(0), types.Int64Type
		attributes[name] = schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(0),
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Stage of " + words + ". Default `0`.",
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		Default:    objectdefault.StaticValue(types.ObjectValueMust(kinds, numbers)),
		Attributes: attributes,
		MarkdownDescription: "Generation numbers. Raising one by one is one stage of a rotation, an apply of its own; three make a whole rotation. " +
			"A plan that skips a stage is refused. Every stage is safe to stop after, and can be taken back by one. Default: all `0`. " +
			"A change is one stage on every machine; what each stage restarts stands in the guide [Rotating everything](../guides/rotation.md).",
	}
}

func encryptionSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Encryption at rest: how the API servers store Secrets in etcd. Default: none, they are stored in the clear. Set with a new bundle it holds from the start. " +
			"A change on a running cluster, to or from none included, is a rotation: it is refused unless `rotation.encryption` is raised with it, and each stage restarts the API servers, one replica at a time.",
		Attributes: map[string]schema.Attribute{
			"provider": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{checked("encryption provider", pki.ValidateEncryptionKind)},
				MarkdownDescription: "`secretbox` (recommended), `aescbc`, whose keys the bundle makes and holds, or `kms` for a KMS v2 plugin that runs on every replica's machine.",
			},
			"resources": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Default:             setdefault.StaticValue(stringSet([]string{"secrets"})),
				Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf("secrets", "configmaps"))},
				MarkdownDescription: "What is encrypted: `secrets`, `configmaps`, or both. Default `[\"secrets\"]`.",
			},
			"kms": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "The plugin of provider `kms`. Default: none; that provider needs it.",
				Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{
						Required:            true,
						Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
						MarkdownDescription: "Name of the plugin. It stands in front of everything that is stored, so another plugin needs another name.",
					},
					"endpoint": schema.StringAttribute{
						Required:            true,
						Validators:          []validator.String{checked("endpoint", component.ValidateSocket)},
						MarkdownDescription: "Socket of the plugin, such as `unix:///run/kms.sock`; not below `/tmp`, `/home`, `/root` or `/dev`, of which the API server's unit has its own or none. Whether the API server may open it is seen before a replica is changed, see its `supplementary_groups`.",
					},
					"timeout": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString("3s"),
						Validators:          []validator.String{durationValidator()},
						MarkdownDescription: "How long one call may take. Default `3s`.",
					},
				},
			},
		},
	}
}

func authoritySchema(name, rotation string) schema.Attribute {
	attributes := privateKeySchema("the authority")
	attributes["certificate"] = schema.StringAttribute{
		Required: true, Validators: []validator.String{checked("certificate", checkCertificate)},
		MarkdownDescription: "Certificate of the authority (PEM), followed by its issuers where it is an intermediate one.",
	}
	attributes["key_held_elsewhere"] = schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "Whether the key stays with an external signer, such as Vault or an HSM: no key is given here, and `kube_certificate_requests` makes the requests " +
			"that the signer has to sign. Default `false`.",
	}
	return schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: attributes,
		MarkdownDescription: "The " + name + " authority, if it is brought along. Default: one is made. " +
			"A change to another certificate is a rotation: on a running cluster it is refused unless `rotation." + rotation + "` is raised with it.",
	}
}

func serviceAccountSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: privateKeySchema("the service accounts"),
		MarkdownDescription: "The key that signs service-account tokens, if it is brought along. Default: one is made. " +
			"A change to another key is a rotation: on a running cluster it is refused unless `rotation.service_account` is raised with it.",
	}
}

// privateKeySchema describes a supplied key, write-only if Terraform supports it.
func privateKeySchema(of string) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"private_key": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Private key of " + of + " (PEM: PKCS #1, PKCS #8 or SEC 1; RSA or ECDSA). Default: none. It is stored in the state: with the provider's `seal` it has to be an age file.",
		},
		"private_key_wo": schema.StringAttribute{
			Optional: true, WriteOnly: true, Sensitive: true,
			MarkdownDescription: "As `private_key`, and never stored as it is given (Terraform 1.11 or later). Default: none.",
		},
		"private_key_wo_version": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Any number. Raise it when `private_key_wo` changes: Terraform does not see that by itself. Default: none.",
		},
	}
}

func pkiBundleOutputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": keptString("Random identifier of the cluster, made with the bundle."),
		"bundle": schema.StringAttribute{
			Computed: true, Sensitive: true, PlanModifiers: kept(),
			MarkdownDescription: "All of it, private keys included, for the `pki` attribute of members, replicas and kubeconfigs.",
		},
		"ca_certificate":             keptString("Certificates of the Kubernetes authorities that are trusted, PEM: one, or two during a rotation, with their issuers."),
		"etcd_ca_certificate":        keptString("Certificates of the etcd authorities that are trusted, PEM."),
		"front_proxy_ca_certificate": keptString("Certificates of the front-proxy authorities that are trusted, PEM."),
		"service_account_public_key": keptString("Public keys that verify service-account tokens, PEM: one, or two during a rotation."),
		"fingerprints":               keptMap("SHA-256 fingerprints of the authorities that issue (`kubernetes`, `etcd`, `front-proxy`), hexadecimal."),
		"expires_at":                 keptMap("When the authorities that issue (`kubernetes`, `etcd`, `front-proxy`) expire, RFC 3339."),
		"stages":                     keptMap("Stage of each part's rotation."),
		"sealed_for":                 sealedForSchema(),
	}
}
