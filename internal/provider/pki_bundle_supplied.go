package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

type rotationModel struct {
	Kubernetes     types.Int64 `tfsdk:"kubernetes"`
	Etcd           types.Int64 `tfsdk:"etcd"`
	FrontProxy     types.Int64 `tfsdk:"front_proxy"`
	ServiceAccount types.Int64 `tfsdk:"service_account"`
	Encryption     types.Int64 `tfsdk:"encryption"`
}

type encryptionModel struct {
	Provider  types.String `tfsdk:"provider"`
	Resources types.Set    `tfsdk:"resources"`
	KMS       *kmsModel    `tfsdk:"kms"`
}

type kmsModel struct {
	Name     types.String `tfsdk:"name"`
	Endpoint types.String `tfsdk:"endpoint"`
	Timeout  types.String `tfsdk:"timeout"`
}

type authorityModel struct {
	Certificate types.String `tfsdk:"certificate"`
	Elsewhere   types.Bool   `tfsdk:"key_held_elsewhere"`
	privateKeyModel
}

type privateKeyModel struct {
	PrivateKey   types.String `tfsdk:"private_key"`
	PrivateKeyWO types.String `tfsdk:"private_key_wo"`
	Version      types.Int64  `tfsdk:"private_key_wo_version"`
}

// generations returns the numbers of a rotation attribute.
func (m pkiBundleModel) generations(ctx context.Context, diags *diag.Diagnostics) map[pki.Part]int {
	var numbers rotationModel
	diags.Append(m.Rotation.As(ctx, &numbers, basetypes.ObjectAsOptions{})...)
	return map[pki.Part]int{
		pki.KubernetesPart:     int(numbers.Kubernetes.ValueInt64()),
		pki.EtcdPart:           int(numbers.Etcd.ValueInt64()),
		pki.FrontProxyPart:     int(numbers.FrontProxy.ValueInt64()),
		pki.ServiceAccountPart: int(numbers.ServiceAccount.ValueInt64()),
		pki.EncryptionPart:     int(numbers.Encryption.ValueInt64()),
	}
}

// supplied returns the keys and certificates that the user supplies. m is the plan's model, with
// defaults. keys is the configuration's model, the only one that contains write-only keys.
func (m pkiBundleModel) supplied(
	ctx context.Context, keys pkiBundleModel, seal *pki.Seal, diags *diag.Diagnostics,
) pki.Next {
	next := pki.Next{Authorities: map[pki.Authority]pki.KeyPair{}}
	for authority, place := range keys.authorities() {
		if place.value.IsNull() {
			continue
		}
		pair, err := suppliedCA(ctx, place.value, seal, diags)
		if err != nil {
			addInvalid(diags, attributePath(place.attribute), "Invalid CA", err)
			continue
		}
		next.Authorities[authority] = pair
	}
	if !keys.ServiceAccount.IsNull() {
		pair, err := suppliedServiceAccount(ctx, keys.ServiceAccount, seal, diags)
		if err != nil {
			addInvalid(diags, attributePath("service_account"), "Invalid service-account key", err)
		}
		next.ServiceAccount = pair
	}
	next.Encryption = m.encryption(ctx, diags)
	return next
}

// place is the attribute of an authority in the configuration.
type place struct {
	attribute string
	value     types.Object
}

func (m pkiBundleModel) authorities() map[pki.Authority]place {
	return map[pki.Authority]place{
		pki.Kubernetes: {"ca", m.CA},
		pki.Etcd:       {"etcd_ca", m.EtcdCA},
		pki.FrontProxy: {"front_proxy_ca", m.FrontProxyCA},
	}
}

func suppliedCA(ctx context.Context, value types.Object, seal *pki.Seal, diags *diag.Diagnostics) (pki.KeyPair, error) {
	var model authorityModel
	diags.Append(value.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	key, err := model.key(seal)
	switch {
	case err != nil:
		return pki.KeyPair{}, err
	case key != "" && model.Elsewhere.ValueBool():
		return pki.KeyPair{}, errors.New("a private key is set, but key_held_elsewhere = true means that there is none")
	case key == "" && !model.Elsewhere.ValueBool():
		return pki.KeyPair{}, errors.New("no private key is set: set private_key_wo or private_key, or " +
			"key_held_elsewhere = true")
	}
	pair := pki.KeyPair{Certificate: model.Certificate.ValueString(), PrivateKey: key}
	return pair, pki.ValidateAuthority(pair)
}

func suppliedServiceAccount(
	ctx context.Context, value types.Object, seal *pki.Seal, diags *diag.Diagnostics,
) (pki.KeyPair, error) {
	var model privateKeyModel
	diags.Append(value.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	key, err := model.key(seal)
	if err != nil {
		return pki.KeyPair{}, err
	}
	return pki.ServiceAccountPair(key)
}

// key returns the supplied private key in the clear, or "" if none is supplied.
func (m privateKeyModel) key(seal *pki.Seal) (string, error) {
	stored, writeOnly := m.PrivateKey.ValueString(), m.PrivateKeyWO.ValueString()
	switch {
	case stored != "" && writeOnly != "":
		return "", errors.New("private_key and private_key_wo are both set: set only one of them")
	case writeOnly != "":
		return writeOnly, nil
	case stored != "" && seal != nil && !pki.Sealed(stored):
		return "", errors.New("private_key would be stored unencrypted in a sealed state: use private_key_wo, or " +
			"encrypt the key with age to one of the seal's identities")
	}
	return seal.Open(stored)
}

// encryption returns the encryption attribute without the key, which is in the bundle.
func (m pkiBundleModel) encryption(ctx context.Context, diags *diag.Diagnostics) pki.Encryption {
	if m.Encryption.IsNull() {
		return pki.Encryption{}
	}
	var model encryptionModel
	diags.Append(m.Encryption.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	e := pki.Encryption{
		Kind:      pki.EncryptionKind(model.Provider.ValueString()),
		Resources: stringsOf(ctx, model.Resources, diags),
	}
	if err := model.validate(); err != nil {
		addInvalid(diags, attributePath("encryption"), "Invalid encryption", err)
	}
	if model.KMS != nil {
		e.Name, e.Endpoint, e.Timeout = model.KMS.Name.ValueString(), model.KMS.Endpoint.ValueString(),
			model.KMS.Timeout.ValueString()
	}
	return e
}

func (m encryptionModel) validate() error {
	kind := m.Provider.ValueString()
	switch {
	case kind == string(pki.KMS) && m.KMS == nil:
		return errors.New("provider kms requires the kms attribute, which configures the plugin")
	case kind != string(pki.KMS) && m.KMS != nil:
		return fmt.Errorf("the kms attribute requires provider kms, not %s", kind)
	}
	return nil
}
