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
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func pkiBundleSchema() schema.Schema {
	attributes := pkiBundleArguments()
	for name, attribute := range pkiBundleOutputs() {
		attributes[name] = attribute
	}
	return schema.Schema{
		MarkdownDescription: "The PKI of one cluster: the Kubernetes, etcd and front-proxy CAs, the " +
			"service-account keys and the keys for encryption at rest, generated as kubeadm does, or supplied. " +
			"Each of them is rotated in stages without downtime. The bundle exists only in the state; destroying " +
			"it deletes the keys.",
		Attributes: attributes,
	}
}

func pkiBundleArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"cluster_name": schema.StringAttribute{
			Required:   true,
			Validators: []validator.String{checked("cluster name", pki.ValidateClusterName)},
			MarkdownDescription: "Name of the cluster in kubeconfigs. A change renames the cluster in place: its " +
				"`id`, keys and CAs stay, kubeconfigs are issued again, and kube-controller-manager and " +
				"kube-scheduler restart, one replica at a time. etcd, the API servers and HAProxy keep running.",
		},
		"key_algorithm": schema.StringAttribute{
			Optional: true, Computed: true,
			Default: stringdefault.StaticString(string(pki.ECDSAP256)),
			Validators: []validator.String{stringvalidator.OneOf(
				string(pki.ECDSAP256), string(pki.ECDSAP384), string(pki.RSA2048), string(pki.RSA3072), string(pki.RSA4096))},
			MarkdownDescription: "Algorithm of new keys, including those of leaf certificates: `ECDSA-P256` (the " +
				"default), `ECDSA-P384`, `RSA-2048`, `RSA-3072` or `RSA-4096`. A change applies to new keys only: " +
				"to leaf certificates when they are renewed, and to CAs when they are rotated.",
		},
		"ca_validity": schema.StringAttribute{
			Optional: true, Computed: true,
			Default:       stringdefault.StaticString("87600h"),
			PlanModifiers: []planmodifier.String{sameDuration{}},
			Validators:    []validator.String{durationValidator()},
			MarkdownDescription: "Validity of new CAs. Default `87600h`, ten years, as in kubeadm. A change " +
				"applies to the next rotation.",
		},
		"deletion_protection": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the cluster is protected from deletion. While it is enabled, the last " +
				"voting member of etcd, the last serving replica, its endpoint and the bundle itself cannot be " +
				"destroyed or replaced. Default `true`. To destroy a cluster, set it to `false`, apply, then " +
				"destroy. A change does not affect any machine.",
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
		pki.KubernetesPart:     "the Kubernetes CA: also trust the next one, issue from it, remove the previous one",
		pki.EtcdPart:           "the etcd CA: also trust the next one, issue from it, remove the previous one",
		pki.FrontProxyPart:     "the front-proxy CA: also trust the next one, issue from it, remove the previous one",
		pki.ServiceAccountPart: "the service-account keys: publish the next one, sign with it, remove the previous one",
		pki.EncryptionPart: "the encryption at rest: also decrypt with the next key, encrypt with it and " +
			"rewrite stored data, remove the previous key",
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
		MarkdownDescription: "Generation numbers. Raising a number by one is one stage of a rotation, in a " +
			"separate apply; three stages are a complete rotation. A plan that skips a stage is refused. You can " +
			"stop after every stage, and go back by one stage. Default: all `0`. A change is one stage on every " +
			"machine; the guide [Rotating CAs and keys](../guides/rotation.md) lists what each stage restarts.",
	}
}

func encryptionSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Encryption at rest: how the API servers store Secrets in etcd. Default: none; they " +
			"are stored unencrypted. If it is set for a new bundle, it applies from the start. A change on a " +
			"running cluster, including one to or from none, is a rotation: it is refused unless " +
			"`rotation.encryption` is raised with it, and each stage restarts the API servers, one replica at a " +
			"time.",
		Attributes: map[string]schema.Attribute{
			"provider": schema.StringAttribute{
				Required:   true,
				Validators: []validator.String{checked("encryption provider", pki.ValidateEncryptionKind)},
				MarkdownDescription: "`secretbox` (recommended) or `aescbc`, whose keys the bundle generates and " +
					"stores, or `kms` for a KMS v2 plugin that runs on every replica's machine.",
			},
			"resources": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Default: setdefault.StaticValue(stringSet([]string{"secrets"})),
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1),
					setvalidator.ValueStringsAre(stringvalidator.OneOf("secrets", "configmaps")),
				},
				MarkdownDescription: "Encrypted resources: `secrets`, `configmaps`, or both. Default `[\"secrets\"]`.",
			},
			"kms": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "The plugin of provider `kms`. Default: none; required for that provider.",
				Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{
						Required:   true,
						Validators: []validator.String{checked("name", pki.ValidatePluginName)},
						MarkdownDescription: "Name of the plugin, without colons. It is the prefix of all data stored with it, so " +
							"another plugin needs another name.",
					},
					"endpoint": schema.StringAttribute{
						Required:   true,
						Validators: []validator.String{checked("endpoint", unit.ValidateSocket)},
						MarkdownDescription: "Socket of the plugin, such as `unix:///run/kms.sock`; not under " +
							"`/tmp`, `/home`, `/root` or `/dev`, which are private or inaccessible in the API " +
							"server's unit. The provider checks that the API server can open it before it changes " +
							"a replica, see `supplementary_groups` of the replica.",
					},
					"timeout": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString("3s"),
						Validators:          []validator.String{durationValidator()},
						MarkdownDescription: "Timeout of one call. Default `3s`.",
					},
				},
			},
		},
	}
}

func authoritySchema(name, rotation string) schema.Attribute {
	attributes := privateKeySchema("the CA")
	attributes["certificate"] = schema.StringAttribute{
		Required: true, Validators: []validator.String{checked("certificate", checkCertificate)},
		MarkdownDescription: "Certificate of the CA (PEM), followed by its issuers if it is an intermediate CA.",
	}
	attributes["key_held_elsewhere"] = schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "Whether the key is held by an external signer, such as Vault or an HSM: no key is " +
			"set here, and `kube_certificate_requests` creates the requests for the signer. Default `false`.",
	}
	return schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: attributes,
		MarkdownDescription: "The " + name + " CA, if you supply it. Default: the provider generates one. " +
			"A change to another certificate is a rotation: on a running cluster, it is refused unless `rotation." + rotation +
			"` is raised with it.",
	}
}

func serviceAccountSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:   true,
		Attributes: privateKeySchema("the service accounts"),
		MarkdownDescription: "The key that signs service-account tokens, if you supply it. Default: the provider " +
			"generates one. A change to another key is a rotation: on a running cluster, it is refused unless " +
			"`rotation.service_account` is raised with it.",
	}
}

// privateKeySchema describes a supplied key, write-only if Terraform supports it.
func privateKeySchema(of string) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"private_key": schema.StringAttribute{
			Optional: true, Sensitive: true,
			MarkdownDescription: "Private key of " + of + " (PEM: PKCS #1, PKCS #8 or SEC 1; RSA or ECDSA). " +
				"Default: none. It is stored in the state; with the provider's `seal`, it must be an age file.",
		},
		"private_key_wo": schema.StringAttribute{
			Optional: true, WriteOnly: true, Sensitive: true,
			MarkdownDescription: "Like `private_key`, but write-only: the value is never stored as given " +
				"(Terraform 1.11 or later). Default: none.",
		},
		"private_key_wo_version": schema.Int64Attribute{
			Optional: true,
			MarkdownDescription: "Any number. Raise it when `private_key_wo` changes, because Terraform does not " +
				"detect that change. Default: none.",
		},
	}
}

func pkiBundleOutputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": keptString("Random identifier of the cluster, generated with the bundle."),
		"bundle": schema.StringAttribute{
			Computed: true, Sensitive: true, PlanModifiers: kept(),
			MarkdownDescription: "The complete bundle, including private keys, for the `pki` attribute of " +
				"members, replicas and kubeconfigs.",
		},
		"ca_certificate": keptString("Certificates of the trusted Kubernetes CAs, PEM: one, or two " +
			"during a rotation, with their issuers."),
		"etcd_ca_certificate":        keptString("Certificates of the trusted etcd CAs, PEM."),
		"front_proxy_ca_certificate": keptString("Certificates of the trusted front-proxy CAs, PEM."),
		"service_account_public_key": keptString("Public keys that verify service-account tokens, PEM: one, or " +
			"two during a rotation."),
		"fingerprints": keptMap("SHA-256 fingerprints of the issuing CAs (`kubernetes`, `etcd`, " +
			"`front-proxy`), hexadecimal."),
		"expires_at": keptMap("Expiry of the issuing CAs (`kubernetes`, `etcd`, `front-proxy`), " +
			"RFC 3339."),
		"stages":     keptMap("Stage of each part's rotation."),
		"sealed_for": sealedForSchema(),
	}
}
