package component

import (
	"strings"
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

// TestAdoptedEncryption: what somebody else has configured is taken over if the provider can go on with it.
func TestAdoptedEncryption(t *testing.T) {
	const secretbox, identity = "secretbox: {keys: [{name: legacy, secret: c2VjcmV0}]}", "identity: {}"
	config := func(resources string, providers ...string) string {
		text := "kind: EncryptionConfiguration\nresources:\n- resources: " + resources + "\n  providers:\n"
		for _, p := range providers {
			text += "  - " + p + "\n"
		}
		return text
	}
	for name, c := range map[string]struct {
		text, refused string
		plain         bool
		kind          pki.EncryptionKind
	}{
		"one key":              {config("[secrets]", secretbox), "", false, pki.Secretbox},
		"and plain":            {config("[secrets]", secretbox, identity), "", true, pki.Secretbox},
		"aescbc":               {config("[secrets]", "aescbc: {keys: [{name: legacy, secret: x}]}"), "", false, pki.AESCBC},
		"a plugin":             {config("[secrets]", "kms: {apiVersion: v2, name: legacy, endpoint: x}"), "", false, pki.KMS},
		"an old plugin":        {config("[secrets]", "kms: {name: legacy, endpoint: x}"), "not of version v2", false, ""},
		"plain first":          {config("[secrets]", identity, secretbox), "not one provider", false, ""},
		"only plain":           {config("[secrets]", identity), "not secretbox or aescbc", false, ""},
		"aesgcm":               {config("[secrets]", "aesgcm: {keys: [{name: x, secret: x}]}"), "not secretbox", false, ""},
		"two providers":        {config("[secrets]", secretbox, secretbox), "not one provider", false, ""},
		"two keys":             {config("[secrets]", "secretbox: {keys: [{name: a}, {name: b}]}"), "with one key", false, ""},
		"everything":           {config(`["*.*"]`, secretbox), "secrets and configmaps only", false, ""},
		"nothing":              {"", "not one list", false, ""},
		"two lists":            {"resources: [{}, {}]", "not one list", false, ""},
		"no text of this kind": {"[", "not YAML", false, ""},
	} {
		e, plain, err := AdoptedEncryption(c.text)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if err == nil && (e.Kind != c.kind || e.Name != "legacy" || plain != c.plain || len(e.Resources) != 1) {
			t.Errorf("%s: %s %q %v, plain %v", name, e.Kind, e.Name, e.Resources, plain)
		}
		if err == nil && e.Kind == pki.KMS && e.Timeout != "3s" {
			t.Errorf("%s: the timeout is %q", name, e.Timeout)
		}
	}
}
