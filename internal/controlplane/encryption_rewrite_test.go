package controlplane

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
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

// silentStore cannot be read.
type silentStore struct{ fakeStore }

func (silentStore) Scan(context.Context, string, func(string, []byte)) error {
	return errors.New("no member answers")
}

func (fakeStore) Versions(context.Context) (map[string]string, error) { return nil, nil }
func (fakeStore) Save(context.Context, string) (string, error)        { return "", nil }

func (fakeStore) PauseMember(ctx context.Context, _ string, do func(context.Context, PausedMember) error) error {
	return do(ctx, noMember{})
}

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

// TestFindStaleObjects: what is stored in the current form is not rewritten again.
func TestFindStaleObjects(t *testing.T) {
	const old, present = "k8s\x00plain", "k8s:enc:secretbox:v1:key2:xx"
	s := testSpec(t)
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 2)
	for _, prefix := range []string{"", "kube/two"} {
		s.ExtraArgs = cptest.Args(release.APIServer, "etcd-prefix", prefix)
		root := "/" + cmp.Or(prefix, "registry")
		s.Store = fakeStore{
			root + "/secrets/a/old": old, root + "/secrets/b/new": present, root + "/configmaps/a/plain": old,
			root + "/configmaps/a/sealed": present,
		}
		left, err := findStaleObjects(t.Context(), s)
		want := staleObjects{"secrets": {"a/old"}, "configmaps": {"a/sealed"}}
		if err != nil || !maps.EqualFunc(left, want, slices.Equal) {
			t.Errorf("below %s: %v, %v", root, left, err)
		}
	}
	s.Store = nil
	left, err := findStaleObjects(t.Context(), s)
	if names, rotated := left["secrets"]; err != nil || !rotated || names != nil {
		t.Errorf("without a store: %v, %v", left, err)
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
		{"etcd does not answer", 2, 3, silentStore{}, false, "check how etcd stores secrets: no member answers"},
		{
			"a new replica, etcd does not answer", 0, 3,
			silentStore{},
			true,
			"check how etcd stores secrets: no member answers",
		},
		{
			"a new replica, the stage to return to", 0, 3,
			fakeStore{"/registry/secrets/a/b": old},
			true,
			"set rotation.encryption back to 2.",
		},
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
			_, silent := c.store.(silentStore)
			if errors.Is(err, errRotationNotYet) != (c.joins && err != nil && !silent) {
				t.Errorf("waited for: %v", err)
			}
		})
	}
}

// TestRotated: a resource that either encryption covers may be stored with a key that is dropped.
func TestRotated(t *testing.T) {
	of := func(resources ...string) pki.Encryption { return cptest.Secretbox("key1", resources...) }
	other := func(e pki.Encryption) *pki.Encryption { return &e }
	for _, c := range []struct {
		name    string
		present pki.Encryption
		other   *pki.Encryption
		want    string
	}{
		{"none", pki.Encryption{}, nil, ""},
		{"the present one", of("secrets"), nil, "secrets"},
		{"the other one", pki.Encryption{}, other(of("configmaps")), "configmaps"},
		{"both", of("secrets"), other(of("configmaps")), "secrets configmaps"},
		{"the same in both", of("secrets"), other(of("secrets")), "secrets"},
	} {
		s := Spec{Replica: component.Replica{Bundle: &pki.Bundle{Encryption: c.present}}}
		s.Bundle.EncryptionRotation.Other = c.other
		if got := strings.Join(s.rotated(), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestStaleObjectsProblem: a replica that serves stays at its stage until nothing is left, and one
// that joins waits for the others.
func TestStaleObjectsProblem(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 3)
	for _, c := range []struct {
		name    string
		left    staleObjects
		joins   bool
		want    string
		waitFor bool
	}{
		{"nothing is left", staleObjects{}, false, "", false},
		{"nothing is left for one that joins", nil, true, "", false},
		{"some are left", staleObjects{"secrets": {"a/b", "a/c", "d/e"}}, false, "3 secrets are stored", false},
		{"of an unknown number", staleObjects{"secrets": nil}, false, "0 secrets are stored", false},
		{
			"some are left for one that joins",
			staleObjects{"secrets": {"a/b", "a/c", "d/e"}},
			true,
			"apply the other replicas first", true,
		},
	} {
		err := staleObjectsProblem(s, c.left, c.joins)
		if text := cptest.Text(err); (err == nil) != (c.want == "") || !strings.Contains(text, c.want) ||
			err != nil && !strings.Contains(text, "set rotation.encryption back to 2") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if errors.Is(err, errRotationNotYet) != c.waitFor || err != nil && !problem.Untouched(err) {
			t.Errorf("%s: waited for: %v", c.name, err)
		}
	}
}

// TestCheckReadable: no replica loses a key with which objects are stored, whatever the numbers of the rotation say.
func TestCheckReadable(t *testing.T) {
	base := testSpec(t).Bundle
	store := fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:key1:" + strings.Repeat("x", 99)}
	for name, c := range map[string]struct {
		has   string // the digest of the file on the machine
		store Store
		want  string
	}{
		"no encryption yet":         {"", store, ""},
		"as wanted":                 {component.EncryptionDigest(encrypted(base)), store, ""},
		"another key":               {"other", store, `another secretbox key named "key1"`},
		"another key, nothing left": {"other", fakeStore{"/registry/secrets/a/b": "k8s"}, ""},
		"etcd does not answer":      {"other", silentStore{}, "no member answers"},
	} {
		s := unreachable(t)
		s.Bundle, s.Store = encrypted(base), c.store
		f := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{}}}
		if c.has != "" {
			f.Facts.Files[component.EncryptionConfigPath] = host.FileState{SHA256: c.has}
		}
		err := checkReadable(t.Context(), s, f)
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) ||
			err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestCheckReadableElsewhere: an API server of kubeadm may have encrypted with another key than the file says that it
// reads from its next restart on.
func TestCheckReadableElsewhere(t *testing.T) {
	s := unreachable(t)
	s.Bundle = encrypted(s.Bundle)
	s.Store = fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:key1:" + strings.Repeat("x", 99)}
	manifest := encryptingManifest(t, "- --encryption-provider-config=/etc/kubernetes/enc/config.yaml", "/srv/enc")
	f := machine.Observed{Facts: host.Facts{
		Files: map[string]host.FileState{component.EncryptionConfigPath: {SHA256: component.EncryptionDigest(s.Bundle)}},
		Output: "replica\tkube-apiserver\tplaced\nreplica\tkube-apiserver\tinherited\t" +
			base64.StdEncoding.EncodeToString([]byte(manifest)) + "\n",
	}}
	if err := checkReadable(t.Context(), s, f); !strings.Contains(cptest.Text(err), `another secretbox key named "key1"`) {
		t.Errorf("a restart with another key: %v", err)
	}
}

// encrypted returns a bundle that stores Secrets with its only key.
func encrypted(b *pki.Bundle) *pki.Bundle {
	other := *b
	other.Encryption = cptest.Secretbox("key1", "secrets")
	return &other
}

// TestRewriteInRotation: without a rotation there is nothing to rewrite, and without a store nothing says that a
// rotation goes back. Everything else is looked at.
func TestRewriteInRotation(t *testing.T) {
	for name, c := range map[string]struct {
		generation int
		store      bool
		asks       bool
	}{
		"steady": {0, true, false}, "introduced": {1, true, true}, "introduced, without a store": {1, false, false},
		"adopted": {2, true, true}, "adopted, without a store": {2, false, true},
	} {
		s := Spec{Replica: component.Replica{Bundle: cptest.At(t, cptest.Bundle(t), pki.EncryptionPart, c.generation)}}
		s.Registrar = &recordingRegistrar{unasked: errAsked}
		if c.store {
			s.Store = fakeStore{}
		}
		if err := NewReplicas(nil).rewriteInRotation(t.Context(), s); errors.Is(err, errAsked) != c.asks {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errAsked = errors.New("the other replicas are asked for")
