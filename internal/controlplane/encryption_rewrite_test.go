package controlplane

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// fakeStore contains values by key, in place of etcd.
type fakeStore map[string]string

func (f fakeStore) Scan(_ context.Context, prefix string, see func(string, []byte)) error {
	for key, value := range maps.All(f) {
		if strings.HasPrefix(key, prefix) {
			see(key, []byte(value))
		}
	}
	return nil
}

func (fakeStore) Versions(context.Context) (map[string]string, error) { return nil, nil }
func (fakeStore) Save(context.Context, string) (string, error)        { return "", nil }

func TestIsEncryptedWith(t *testing.T) {
	cbc, kms := cptest.Secretbox("key2", "secrets"), pki.Encryption{
		Kind: pki.KMS, Name: "vault", Resources: []string{"secrets"},
	}
	cbc.Kind = pki.AESCBC
	for _, c := range []struct {
		encryption      pki.Encryption
		resource, value string
		want            bool
	}{
		{pki.Encryption{}, "secrets", "k8s\x00...", true},
		{pki.Encryption{}, "secrets", "", true},
		{pki.Encryption{}, "secrets", "k8s:enc:secretbox:v1:key1:xx", false},
		{cptest.Secretbox("key1", "secrets"), "secrets", "k8s:enc:secretbox:v1:key1:xx", true},
		{cptest.Secretbox("key1", "secrets"), "secrets", "k8s:enc:secretbox:v1:key10:xx", false},
		{cptest.Secretbox("key1", "secrets"), "secrets", "k8s:enc:aescbc:v1:key1:xx", false},
		{cptest.Secretbox("key1", "secrets"), "secrets", "k8s\x00...", false},
		{cptest.Secretbox("key1", "secrets"), "configmaps", "k8s\x00...", true},
		{cptest.Secretbox("key1", "secrets"), "configmaps", "k8s:enc:secretbox:v1:key1:xx", false},
		{cbc, "secrets", "k8s:enc:aescbc:v1:key2:xx", true},
		{kms, "secrets", "k8s:enc:kms:v2:vault:xx", true},
		{kms, "secrets", "k8s:enc:kms:v1:vault:xx", false},
	} {
		if have := isEncryptedWith(c.encryption, c.resource, []byte(c.value)); have != c.want {
			t.Errorf("%q of %s by %s: %v", c.value, c.resource, c.encryption.Kind, have)
		}
	}
}

func TestCheckNoStaleObjects(t *testing.T) {
	const old, present = "k8s\x00plain", "k8s:enc:secretbox:v1:key2:xx"
	base := testSpec(t).Bundle
	for _, c := range []struct {
		name     string
		from, to int
		store    Store
		joins    bool
		want     string
	}{
		{
			"nothing is left", 2, 3,
			fakeStore{"/registry/secrets/a/b": present, "/registry/configmaps/a/b": old, "/registry/pods/a/b": "x"},
			false, "",
		},
		{"nothing is dropped", 1, 2, fakeStore{"/registry/secrets/a/b": old}, false, ""},
		{
			"something is left, and the API server cannot rewrite it", 2, 3,
			fakeStore{"/registry/secrets/a/b": old},
			false,
			"cannot determine how etcd stores the objects: rewrite secrets",
		},
		{"back, and something is encrypted", 1, 0, fakeStore{"/registry/secrets/a/b": present}, false, "rewrite secrets"},
		{"unseen", 2, 3, nil, false, "rewrite secrets"},
		{"a new replica", 0, 3, fakeStore{"/registry/secrets/a/b": old}, true, "apply the other replicas first"},
		{"a new replica, unseen", 0, 3, nil, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := unreachable(t)
			s.Bundle = cptest.At(t, base, pki.EncryptionPart, c.from)
			f := machine.Observed{Record: machine.Record{ClusterID: s.Bundle.ClusterID, Generations: s.Bundle.Generations()}}
			if c.joins {
				f = machine.Observed{}
			}
			s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, c.to)
			s.Store = c.store
			err := checkNoStaleObjects(t.Context(), s, f)
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) || err != nil &&
				!problem.Untouched(err) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if errors.Is(err, errRotationNotYet) != (c.joins && err != nil) {
				t.Errorf("waited for: %v", err)
			}
		})
	}
}
