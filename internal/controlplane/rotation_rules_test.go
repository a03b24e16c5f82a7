package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestStepsAreListedOnce: each intermediate stage is named once, however many replicas need it.
func TestStepsAreListedOnce(t *testing.T) {
	at := func(name string, kubernetes, encryption int) replicaStatus {
		return replicaStatus{name: name, address: "10.0.0.12", generations: generations(kubernetes, encryption)}
	}
	others := []replicaStatus{at("cp2", 0, 2), at("cp3", 2, 0), at("cp4", 0, 2)}
	err := checkStages(testSpec(t), generations(2, 2), others, false)
	if text := cptest.Text(err); strings.Count(text, "set rotation.kubernetes back") != 1 ||
		strings.Count(text, "set rotation.encryption back") != 1 {
		t.Error(text)
	}
}

// TestForeignStage: nobody knows the stage of an API server of kubeadm that is not taken over. It keeps the others from
// a stage and from a rewrite, and not from being taken over themselves.
func TestForeignStage(t *testing.T) {
	f := machine.Interpret(host.Facts{
		Output: "replica\tkube-apiserver\tplaced\nreplica\tkube-apiserver\tinherited\t" +
			base64.StdEncoding.EncodeToString([]byte(kubeadmAPIServer(t))) + "\n", // its container has just ended
	})
	s := testSpec(t)
	foreign := replicaStatus{name: "cp2", address: "10.0.0.12"}
	foreign.read(s.Bundle.ClusterID, f)
	others := []replicaStatus{foreign}
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 1)
	err := checkStages(s, s.Bundle.Generations(), others, false)
	if !errors.Is(err, errRotationNotYet) || !strings.Contains(cptest.Text(err), "cp2 (10.0.0.12)") {
		t.Errorf("a stage: %v", err)
	}
	if last, _ := lastToTakeEncryption(s, others); last {
		t.Error("objects are rewritten that it could not read")
	}
	s.Runtime = component.StaticPod
	if left := concerned(s, f, others); len(left) > 0 {
		t.Errorf("a takeover waits for %+v", left)
	}
	if left := concerned(s, converged(t, s), others); len(left) != 1 {
		t.Error("a replica with a record does not wait")
	}
}

// kubeadmAPIServer returns a manifest of kubeadm.
func kubeadmAPIServer(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "staticpod", "testdata", "kubeadm", "kube-apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCheckRotation: a stage is refused if the load balancers do not list the replicas, if an
// etcd member cannot be shown to be trusted, or if objects would become unreadable.
func TestCheckRotation(t *testing.T) {
	base := testSpec(t).Bundle
	unasked := errors.New("no balancer answers")
	for _, c := range []struct {
		name      string
		part      pki.Part
		from, to  int
		registrar *recordingRegistrar
		store     Store
		want      string
	}{
		{"the same stage", pki.EtcdPart, 2, 2, &recordingRegistrar{unasked: unasked}, nil, ""},
		{"a stage alone", pki.KubernetesPart, 0, 1, &recordingRegistrar{}, nil, ""},
		{
			"a stage was missed in which it would have signed with the next key", pki.ServiceAccountPart, 1, 3,
			&recordingRegistrar{}, nil, "set rotation.service_account back to 2",
		},
		{"the replicas are unknown", pki.KubernetesPart, 0, 1, &recordingRegistrar{unasked: unasked}, nil, "no balancer"},
		{"an etcd CA is added", pki.EtcdPart, 0, 1, &recordingRegistrar{}, nil, ""},
		{
			"an etcd CA is dropped", pki.EtcdPart, 2, 3, &recordingRegistrar{}, nil,
			"cannot determine which certificate https://127.0.0.1:2379 serves",
		},
		{
			"a certificate of another etcd CA", pki.EtcdPart, 1, 2, &recordingRegistrar{}, nil,
			"cannot determine whether https://127.0.0.1:2379 accepts the certificate",
		},
		{
			"a certificate of the previous etcd CA again", pki.EtcdPart, 2, 1, &recordingRegistrar{}, nil,
			"cannot determine whether https://127.0.0.1:2379 accepts the certificate",
		},
		{
			"an encryption key is dropped", pki.EncryptionPart, 2, 3, &recordingRegistrar{},
			silentStore{},
			"no member answers",
		},
	} {
		s := unreachable(t)
		s.Bundle, s.EtcdURLs = cptest.At(t, base, c.part, c.from), []string{"https://127.0.0.1:2379"}
		f := converged(t, s)
		s.Bundle, s.Registrar, s.Store = cptest.At(t, s.Bundle, c.part, c.to), c.registrar, c.store
		err := NewReplicas(nil).checkRotation(t.Context(), s, f)
		if (err == nil) != (c.want == "") || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestOlderBundle: a replica does not follow a bundle from an old state back, also if there is no other replica.
func TestOlderBundle(t *testing.T) {
	for _, p := range []pki.Part{pki.KubernetesPart, pki.ServiceAccountPart} {
		for _, c := range []struct{ from, to int }{{3, 0}, {3, 1}, {2, 0}} {
			s := unreachable(t)
			old := cptest.At(t, s.Bundle, p, c.to)
			s.Bundle = cptest.At(t, s.Bundle, p, c.from)
			f := converged(t, s)
			s.Bundle, s.Registrar = old, &recordingRegistrar{}
			err := NewReplicas(nil).checkRotation(t.Context(), s, f)
			if !strings.Contains(cptest.Text(err), "if the state of kube_pki_bundle is an old one") || !problem.Untouched(err) {
				t.Errorf("%s from %d to %d: %v", p, c.from, c.to, err)
			}
		}
	}
}

// TestLeftoversAreRewrittenFirst: a stage that drops a key rewrites what is left with it before it judges what the
// replica could no longer read. What another key of the same name has encrypted is no leftover.
func TestLeftoversAreRewrittenFirst(t *testing.T) {
	for name, c := range map[string]struct {
		from, to  int
		key, want string
	}{
		"the last stage":                      {2, 3, "key1", "rewrite secrets"},
		"back to the beginning":               {1, 0, "key2", "rewrite secrets"},
		"another key of the name of this one": {2, 3, "key2", `another secretbox key named "key2"`},
		"a key of nobody":                     {0, 1, "key7", `the secretbox key "key7"`},
	} {
		s := unreachable(t)
		s.Bundle = cptest.At(t, encrypted(s.Bundle), pki.EncryptionPart, c.from)
		f := converged(t, s)
		s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, c.to)
		s.Registrar = &recordingRegistrar{}
		s.Store = fakeStore{"/registry/secrets/a/b": "k8s:enc:secretbox:v1:" + c.key + ":" + strings.Repeat("x", 99)}
		err := NewReplicas(nil).checkRotation(t.Context(), s, f)
		if !strings.Contains(cptest.Text(err), c.want) || !problem.Untouched(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLosesMember: an API server keeps trust in an etcd CA as long as a member has only a
// certificate of that CA.
func TestLosesMember(t *testing.T) {
	old, err := pki.Generate(pki.Options{ClusterName: "prod", Now: cptest.Now})
	if err != nil {
		t.Fatal(err)
	}
	both := cptest.At(t, old, pki.EtcdPart, 1)
	last := cptest.At(t, both, pki.EtcdPart, 3)
	chain := func(b *pki.Bundle, leaf pki.Leaf) []*x509.Certificate {
		pair, err := b.Issue(leaf, cptest.Now, 0)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode([]byte(pair.Certificate))
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return []*x509.Certificate{certificate}
	}
	server := pki.EtcdServer("cp1", "10.0.0.11")
	for _, c := range []struct {
		name  string
		next  *pki.Bundle
		chain []*x509.Certificate
		err   error
		want  string
	}{
		{"of the remaining CA", last, chain(last, server), nil, ""},
		{"of a CA that is still trusted", both, chain(old, server), nil, ""},
		{"of the CA that is dropped", last, chain(old, server), nil, "would no longer be trusted"},
		{"not for a server", last, chain(last, pki.EtcdHealthcheckClient()), nil, "would no longer be trusted"},
		{"no certificate", last, nil, nil, "serves no certificate"},
		{"unknown", last, nil, errors.New("no route"), "cannot determine which certificate m serves: no route"},
	} {
		got := losesMember(c.next.Anchors(pki.Etcd), "m", c.chain, c.err, cptest.Now.Add(time.Hour))
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRefusesReplica: a member that refuses the certificate keeps every replica from it. One that does not answer keeps
// only a replica that serves, and only if no other one accepts it.
func TestRefusesReplica(t *testing.T) {
	refused, silent := fmt.Errorf("x: %w", host.ErrCertificateRefused), errors.New("no route")
	for name, c := range map[string]struct {
		answers []error
		joins   bool
		want    []string // what it says; none: it may get the certificate
	}{
		"accepted":               {[]error{nil, nil}, false, nil},
		"refused by one":         {[]error{nil, refused}, false, []string{"m1 does not accept the certificate"}},
		"a new one is refused":   {[]error{nil, refused}, true, []string{"m1 does not accept the certificate"}},
		"one is silent":          {[]error{silent, nil}, false, nil},
		"all are silent":         {[]error{silent, silent}, false, []string{"whether m0 accepts", "m1 accepts", "no route"}},
		"all, for a new one":     {[]error{silent, silent}, true, nil},
		"one refuses, one hides": {[]error{refused, silent}, false, []string{"m0 does not accept", "whether m1 accepts"}},
		"no member is known":     {nil, true, nil},
	} {
		answers := map[string]error{}
		for i, err := range c.answers {
			answers[fmt.Sprintf("m%d", i)] = err
		}
		got := refusesReplica(answers, c.joins)
		lacks := func(part string) bool { return !strings.Contains(got, part) }
		if (got == "") != (c.want == nil) || slices.ContainsFunc(c.want, lacks) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAwaitRotation: a new replica at the stage of its bundle needs no question; otherwise the
// rules of a rotation apply to it, under the lock.
func TestAwaitRotation(t *testing.T) {
	s := calm(t)
	unasked := errors.New("no balancer answers")
	s.Registrar = &recordingRegistrar{unasked: unasked}
	f := converged(t, s)
	r := NewReplicas(nil)
	if err := r.awaitRotation(t.Context(), s, f); err != nil {
		t.Errorf("at the same stage: %v", err)
	}
	own := s
	s.Bundle = encrypted(s.Bundle)
	if err := r.awaitRotation(t.Context(), s, f); err != nil {
		t.Errorf("before its first key was written: %v", err)
	}
	with := converged(t, s)
	s.Bundle = encrypted(s.Bundle)
	s.Bundle.Encryption = cptest.Secretbox("key7", "secrets")
	if err := r.awaitRotation(t.Context(), s, with); !errors.Is(err, unasked) {
		t.Errorf("with another key of the same number: %v", err)
	}
	s = own
	s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if err := r.awaitRotation(t.Context(), s, f); !errors.Is(err, unasked) {
		t.Errorf("at another stage: %v", err)
	}
	if !isFree(t, r, s) {
		t.Error("the lock is kept, or a refusal counts as a failed change")
	}
	other := s
	other.Name = "cp2"
	lock, err := r.changeLocks.acquire(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.finish(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.awaitRotation(ctx, s, f); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it waits for the lock: %v", err)
	}
}

func TestAllOnMachine(t *testing.T) {
	const here = "https://10.0.0.11:2379"
	for urls, want := range map[string]bool{
		here: true, "": false, "https://10.0.0.12:2379": false, here + " " + here: false,
		here + " https://10.0.0.12:2379": false, "://10.0.0.11": false,
	} {
		if got := allOnMachine(strings.Fields(urls), "10.0.0.11"); got != want {
			t.Errorf("%s: %v", urls, got)
		}
	}
}

// TestAnyRotated: a new replica with a bundle from before a rotation is noticed by what others run with.
func TestAnyRotated(t *testing.T) {
	b := testSpec(t).Bundle
	at := func(n int) map[pki.Part]int { return map[pki.Part]int{pki.ServiceAccountPart: n} }
	another := map[pki.Part]string{pki.ServiceAccountPart: "another"}
	for name, c := range map[string]struct {
		others []replicaStatus
		want   bool
	}{
		"nobody":            {nil, false},
		"the same":          {[]replicaStatus{{generations: at(0)}, {}}, false},
		"rotated":           {[]replicaStatus{{}, {generations: at(3)}}, true},
		"one that has left": {[]replicaStatus{{generations: at(3), absent: true}}, false},
		"not known":         {[]replicaStatus{{unknown: errors.New("no route")}}, false},
		"with another key":  {[]replicaStatus{{}, {keys: another}}, true},
	} {
		if got := anyRotated(b, c.others); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	err := checkStages(testSpec(t), at(0), []replicaStatus{{name: "cp1", generations: at(3)}}, true)
	if !errors.Is(err, errRotationNotYet) {
		t.Errorf("it joins: %v", err)
	}
}
