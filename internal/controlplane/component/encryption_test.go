package component

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func TestEncryptionConfiguration(t *testing.T) {
	kms := func(name string, resources ...string) pki.Encryption {
		return pki.Encryption{
			Kind: pki.KMS, Resources: resources, Name: name, Endpoint: "unix:///run/kms.sock", Timeout: "3s",
		}
	}
	cbc := cptest.Secretbox("key2", "secrets")
	cbc.Kind = pki.AESCBC
	between := func(generation int, first, second pki.Encryption) *pki.Bundle {
		return &pki.Bundle{
			Encryption: first, EncryptionRotation: pki.Rotation[pki.Encryption]{Generation: generation, Other: &second},
		}
	}
	for name, b := range map[string]*pki.Bundle{
		"steady":          cptest.Encrypting(&pki.Bundle{}, cptest.Secretbox("key1", "configmaps", "secrets")),
		"plain-to-key":    between(1, pki.Encryption{}, cptest.Secretbox("key1", "secrets")),
		"key-from-plain":  between(2, cptest.Secretbox("key1", "secrets"), pki.Encryption{}),
		"key-to-plain":    between(2, pki.Encryption{}, cptest.Secretbox("key1", "secrets")),
		"other-resources": between(5, cptest.Secretbox("key2", "configmaps", "secrets"), cptest.Secretbox("key1", "secrets")),
		"cbc-to-kms":      between(4, cbc, kms("vault", "secrets")),
	} {
		t.Run(name, func(t *testing.T) { cptest.Golden(t, "encryption-"+name+".yaml", encryptionText(b)) })
	}
	if (Replica{Bundle: between(3, pki.Encryption{}, cptest.Secretbox("key1", "secrets"))}).encrypts() {
		t.Error("a steady plain bundle has something to read")
	}
}
