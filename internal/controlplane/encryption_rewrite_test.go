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
	return errNoMemberAnswers
}

var errNoMemberAnswers = errors.New("no member answers")

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
		{
			"a new replica, back, and something is encrypted", 1, 0,
			fakeStore{"/registry/secrets/a/b": present},
			true,
			"an earlier state of kube_pki_bundle",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := unreachable(t)
			f := toStage(t, &s, base, c.from, c.to, c.joins)
			s.Store = c.store
			err := checkNoStaleObjects(t.Context(), s, f)
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) || err != nil &&
				!problem.Untouched(err) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if strings.Contains(cptest.Text(err), "-1") {
				t.Errorf("a stage that does not exist is proposed: %v", err)
			}
			_, silent := c.store.(silentStore)
			if errors.Is(err, errRotationNotYet) != (c.joins && err != nil && !silent) {
				t.Errorf("waited for: %v", err)
			}
			if errors.Is(err, errNoMemberAnswers) != silent {
				t.Errorf("the error that etcd has returned is lost: %v", err)
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
// that joins waits for the others. No stage is proposed on the way back: the API server can rewrite where it is.
func TestStaleObjectsProblem(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 3)
	some := staleObjects{"secrets": {"a/b", "a/c", "d/e"}}
	const proposal = "set rotation.encryption back to 2"
	for _, c := range []struct {
		name        string
		left        staleObjects
		joins, back bool
		want        []string
	}{
		{"nothing is left", staleObjects{}, false, false, nil},
		{"nothing is left for one that joins", nil, true, false, nil},
		{"some are left", some, false, false, []string{"3 secrets are stored", proposal}},
		{"of an unknown number", staleObjects{"secrets": nil}, false, false, []string{"0 secrets are stored", proposal}},
		{"some are left for one that joins", some, true, false, []string{"apply the other replicas first", proposal}},
		{"some are left on the way back", some, false, true, []string{"3 secrets are stored", "then apply again"}},
		{
			"some are left on the way back for one that joins", some, true, true,
			[]string{"apply the other replicas first", "an earlier state of kube_pki_bundle"},
		},
	} {
		err := staleObjectsProblem(s, c.left, c.joins, c.back)
		text := cptest.Text(err)
		if (err == nil) != (len(c.want) == 0) || c.back && strings.Contains(text, proposal) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %v", c.name, want, err)
			}
		}
		if errors.Is(err, errRotationNotYet) != (c.joins && err != nil) || err != nil && !problem.Untouched(err) {
			t.Errorf("%s: waited for: %v", c.name, err)
		}
	}
}

// toStage gives s the bundle base at the encryption stage to, and returns a machine whose replica is at the stage from,
// or that has none.
func toStage(t *testing.T, s *Spec, base *pki.Bundle, from, to int, joins bool) machine.Observed {
	t.Helper()
	before := cptest.At(t, base, pki.EncryptionPart, from)
	s.Bundle = cptest.At(t, before, pki.EncryptionPart, to)
	if joins {
		return machine.Observed{}
	}
	return machine.Observed{Record: machine.Record{ClusterID: before.ClusterID, Generations: before.Generations()}}
}

func TestGoesBack(t *testing.T) {
	base := testSpec(t).Bundle
	for name, c := range map[string]struct {
		from, to int
		joins    bool
		want     bool
	}{
		"to the last stage":               {2, 3, false, false},
		"a stage was missed":              {1, 3, false, false},
		"back to the beginning":           {1, 0, false, true},
		"back to the end of one before":   {4, 3, false, true},
		"it joins at the last stage":      {2, 3, true, false},
		"it joins at the beginning":       {1, 0, true, true},
		"it joins at the end, taken back": {4, 3, true, false}, // the bundle has what API servers have at 2
	} {
		s := testSpec(t)
		f := toStage(t, &s, base, c.from, c.to, c.joins)
		if got := goesBack(s, f); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOneStepToRead: a refusal names the step that the bundle knows, or another bundle, and never both.
func TestOneStepToRead(t *testing.T) {
	base := encrypted(testSpec(t).Bundle)
	for name, c := range map[string]struct {
		path []int
		key  string
		want string
	}{
		"the previous one":      {[]int{1, 2, 3}, "key1", "set rotation.encryption back to 2"},
		"one that is withdrawn": {[]int{1, 2, 1, 0}, "key2", "set rotation.encryption to 1, with encryption for"},
		"the one before it":     {[]int{1, 2, 3, 4, 3}, "key1", "set rotation.encryption back to 2"},
		"the same, in a rotation": {[]int{1, 2, 3, 4}, "key1", "take the rotation of encryption back, then set " +
			"rotation.encryption back to 2"},
		"of nobody": {[]int{1, 2, 3}, "key7", "use the bundle with that key"},
	} {
		s := unreachable(t)
		s.Bundle = base
		for _, to := range c.path {
			s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, to)
		}
		s.Store = fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:" + c.key + ":" + strings.Repeat("x", 99)}
		f := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{
			component.EncryptionConfigPath: {SHA256: "other"},
		}}}
		for _, err := range []error{
			checkReadable(t.Context(), s, f), checkReadableByNew(t.Context(), s, machine.Observed{}),
		} {
			text := cptest.Text(err)
			if strings.Count(text, "rotation.encryption")+strings.Count(text, "use the bundle") !=
				strings.Count(c.want, "rotation.encryption")+strings.Count(c.want, "use the bundle") ||
				!strings.Contains(text, c.want) {
				t.Errorf("%s: %s, want %q alone", name, text, c.want)
			}
		}
	}
}

// TestCheckReadable: no replica loses a key with which objects are stored, whatever the numbers of the rotation say.
func TestCheckReadable(t *testing.T) {
	base := testSpec(t).Bundle
	store := fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:key1:" + strings.Repeat("x", 99)}
	clear := fakeStore{"/registry/secrets/a/b": "k8s"}
	for name, c := range map[string]struct {
		has   string // the digest of the file on the machine
		store Store
		want  string
	}{
		"no encryption yet":         {"", store, ""},
		"as wanted":                 {component.EncryptionDigest(encrypted(base)), store, ""},
		"another key":               {"other", store, `another secretbox key named "key1"`},
		"another key, nothing left": {"other", fakeStore{"/registry/configmaps/a/b": "k8s"}, ""},
		"another key, unencrypted":  {"other", clear, "set rotation.encryption to 1"},
		"etcd does not answer":      {"other", silentStore{}, "no member answers"},
	} {
		s := unreachable(t)
		s.Bundle, s.Store = encrypted(base), c.store
		f := machine.Observed{Facts: host.Facts{Files: map[string]host.FileState{}}}
		if c.has != "" {
			f.Facts.Files[component.EncryptionConfigPath] = host.FileState{SHA256: c.has}
		}
		err := checkReadable(t.Context(), s, f)
		if errors.Is(err, errNoMemberAnswers) != (c.want == "no member answers") {
			t.Errorf("%s: the error that etcd has returned is lost: %v", name, err)
		}
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) ||
			err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// lostStore is that of an etcd whose members do not answer.
type lostStore struct{ silentStore }

func (lostStore) Versions(context.Context) (map[string]string, error) {
	return map[string]string{"cp1": ""}, nil
}

// electingStore is that of an etcd that elects a leader when it is asked first.
type electingStore struct {
	fakeStore
	asked *int
}

func (b electingStore) Scan(ctx context.Context, prefix string, see func(string, []byte)) error {
	if *b.asked++; *b.asked == 1 {
		see(prefix+"a/b", []byte("k8s:enc:secretbox:v1:key2:xx"))
		return errors.New("no leader")
	}
	return b.fakeStore.Scan(ctx, prefix, see)
}

// TestCheckReadableByNew: etcd may have survived the machines of all replicas, and the bundle that its objects were
// encrypted with.
func TestCheckReadableByNew(t *testing.T) {
	base := testSpec(t).Bundle
	with := func(key string) fakeStore {
		return fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:" + key + ":xx", "/registry/configmaps/a/b": "k8s"}
	}
	clear := fakeStore{"/registry/secrets/a/b": "k8s"}
	for name, c := range map[string]struct {
		bundle *pki.Bundle
		record string // on the machine: the ID of the cluster
		store  Store
		want   string
	}{
		"nothing in etcd":                {encrypted(base), "", fakeStore{}, ""},
		"its own key":                    {encrypted(base), "", with("key1"), ""},
		"unencrypted":                    {encrypted(base), "", clear, "1 objects in etcd: secrets are stored unencrypted"},
		"unencrypted, and no key":        {base, "", clear, ""},
		"another key":                    {encrypted(base), "", with("key2"), `the secretbox key "key2"`},
		"no key":                         {base, "", with("key1"), `the secretbox key "key1"`},
		"an interrupted Create":          {encrypted(base), base.ClusterID, with("key2"), ""},
		"no store":                       {encrypted(base), "", nil, ""},
		"etcd does not answer":           {encrypted(base), "", lostStore{}, "no member answers"},
		"etcd of nobody":                 {encrypted(base), "", silentStore{}, ""},
		"etcd answers when asked again":  {encrypted(base), "", electingStore{with("key1"), new(int)}, ""},
		"the same, with another key yet": {encrypted(base), "", electingStore{with("key3"), new(int)}, `1 objects`},
	} {
		s := testSpec(t)
		s.Bundle, s.Store = c.bundle, c.store
		f := machine.Observed{Record: machine.Record{ClusterID: c.record}}
		err := checkReadableByNew(t.Context(), s, f)
		if errors.Is(err, errNoMemberAnswers) != (c.want == "no member answers") {
			t.Errorf("%s: the error that etcd has returned is lost: %v", name, err)
		}
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) ||
			err != nil && !problem.Untouched(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// pagedStore is an etcd that is read in pages.
type pagedStore struct {
	fakeStore
	pages
}

func (p pagedStore) Scan(ctx context.Context, prefix string, see func(string, []byte)) error {
	return p.pages.Scan(ctx, prefix, see)
}

// TestFindUnreadableEnds: a new replica does not read all of a large etcd.
func TestFindUnreadableEnds(t *testing.T) {
	s := testSpec(t)
	s.Bundle = encrypted(s.Bundle)
	values := slices.Repeat([]string{"k8s:enc:secretbox:v1:key1:xx"}, mostStored+1000)
	values[len(values)-1] = "k8s:enc:secretbox:v1:key2:xx"
	s.Store = pagedStore{pages: pages{"/registry/secrets/": values, "/registry/configmaps/": {}}}
	for most, want := range map[int]int{mostStored: 0, len(values) + 1: 1} {
		if n, _, err := findUnreadable(t.Context(), s, most); err != nil || n != want {
			t.Errorf("of %d: %d, %v, want %d", most, n, err, want)
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

// TestRewriteWithUnseenReplica: what is left is named by the apply that leaves it, because no plan shows it afterwards.
func TestRewriteWithUnseenReplica(t *testing.T) {
	const old, present = "k8s:enc:secretbox:v1:key1:xx", "k8s:enc:secretbox:v1:key2:xx"
	for value, want := range map[string]string{
		old: "cannot determine the rotation stage of replica cp2 (127.0.0.1)", present: "",
	} {
		s := unreachable(t)
		s.Bundle = cptest.At(t, encrypted(s.Bundle), pki.EncryptionPart, 2)
		s.Store = fakeStore{"/registry/secrets/a/b": value}
		s.Registrar = &recordingRegistrar{others: map[string]string{"cp1": "127.0.0.1:6443", "cp2": "127.0.0.1:6443"}}
		r := NewReplicas(func(string) *host.Host { return s.Host })
		err := r.rewriteInRotation(t.Context(), s)
		if (err == nil) != (want == "") || !strings.Contains(cptest.Text(err), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

func TestLastToTakeEncryption(t *testing.T) {
	s := testSpec(t)
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 2)
	stands := func(g int) replicaStatus { return replicaStatus{generations: generations(0, g)} }
	silent := replicaStatus{name: "cp3", unknown: errors.New("no route")}
	for name, c := range map[string]struct {
		others []replicaStatus
		last   bool
		unseen int
	}{
		"alone":                         {nil, true, 0},
		"all are there":                 {[]replicaStatus{stands(2), {absent: true}}, true, 0},
		"one is behind":                 {[]replicaStatus{stands(2), stands(1)}, false, 0},
		"one is unknown":                {[]replicaStatus{stands(2), silent}, true, 1},
		"one is behind, one is unknown": {[]replicaStatus{silent, stands(1)}, false, 0},
		"one is changing":               {[]replicaStatus{stands(2), {unknown: errAsked, between: true}}, false, 0},
		"one is not taken over":         {[]replicaStatus{stands(2), {unknown: errForeign, foreign: true}}, false, 0},
	} {
		if last, unseen := lastToTakeEncryption(s, c.others); last != c.last || len(unseen) != c.unseen {
			t.Errorf("%s: %v, %q", name, last, unseen)
		}
	}
}

var errAsked = errors.New("the other replicas are asked for")
