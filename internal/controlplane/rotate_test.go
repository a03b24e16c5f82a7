package controlplane

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// at is the bundle taken to a generation of one part, stage by stage.
func at(t *testing.T, b *pki.Bundle, part pki.Part, generation int) *pki.Bundle {
	t.Helper()
	for b.Generation(part) != generation {
		step := 1
		if b.Generation(part) > generation {
			step = -1
		}
		next := pki.Next{Encryption: pki.Encryption{Kind: pki.Secretbox, Resources: []string{"secrets"}}}
		var err error
		if b, err = b.Rotate(map[pki.Part]int{part: b.Generation(part) + step}, next, pki.Options{Now: now, Algorithm: b.Algorithm, Validity: 2 * 365 * 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func secretbox(name string, resources ...string) pki.Encryption {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name[len(name)-1:], 32)))
	return pki.Encryption{Kind: pki.Secretbox, Resources: resources, Name: name, Key: key}
}

func encrypting(b *pki.Bundle, e pki.Encryption) *pki.Bundle {
	bundle := *b
	bundle.Encryption = e
	return &bundle
}

// external is the bundle without the key of its kubernetes authority.
func external(b *pki.Bundle) *pki.Bundle {
	bundle := *b
	bundle.CA.PrivateKey = ""
	return &bundle
}

// signedElsewhere is the same with what a signer made for the replica.
func signedElsewhere(t *testing.T, s Spec) *pki.Bundle {
	t.Helper()
	bundle := external(s.Bundle)
	bundle.Signed = map[string]pki.KeyPair{}
	for _, leaf := range Leaves(s.names()) {
		if leaf.Authority != pki.Kubernetes {
			continue
		}
		pair, err := s.Bundle.Issue(leaf, now, 0)
		if err != nil {
			t.Fatal(err)
		}
		bundle.Signed[leaf.Name] = pair
	}
	return bundle
}

// TestStages: what each step of each rotation writes and restarts.
func TestStages(t *testing.T) {
	serverLeaves := []string{apiServerCert, keyOf(apiServerCert), kubeletClientCert, keyOf(kubeletClientCert)}
	kubeconfigFiles := []string{adminConf, controllerManagerConf, schedulerConf}
	for _, c := range []struct {
		part     pki.Part
		from, to int
		changed  []string // the fixed files
		issued   []string
		restart  []string
	}{
		{pki.KubernetesPart, 0, 1, []string{caCert, clientCA}, kubeconfigFiles, []string{release.ControllerManager, release.Scheduler}},
		{
			pki.KubernetesPart, 1, 2,
			[]string{caKey, signingCA},
			slices.Concat(kubeconfigFiles, serverLeaves),
			[]string{release.ControllerManager, release.Scheduler},
		},
		{pki.KubernetesPart, 2, 3, []string{caCert, clientCA}, kubeconfigFiles, []string{release.ControllerManager, release.Scheduler}},
		{pki.KubernetesPart, 3, 2, []string{caCert, clientCA}, kubeconfigFiles, []string{release.ControllerManager, release.Scheduler}},
		{pki.EtcdPart, 0, 1, []string{etcdClientCA}, nil, []string{release.APIServer}},
		{pki.EtcdPart, 1, 2, nil, []string{etcdClientCert, keyOf(etcdClientCert)}, nil},
		{pki.EtcdPart, 2, 3, []string{etcdClientCA}, nil, []string{release.APIServer}},
		{pki.FrontProxyPart, 0, 1, []string{frontProxyCA}, nil, nil},
		{pki.FrontProxyPart, 1, 2, nil, []string{frontProxyClientCert, keyOf(frontProxyClientCert)}, nil},
		{pki.FrontProxyPart, 2, 3, []string{frontProxyCA}, nil, nil},
		{pki.ServiceAccountPart, 0, 1, []string{saPub}, nil, []string{release.APIServer}},
		{pki.ServiceAccountPart, 1, 2, []string{saKey}, nil, []string{release.APIServer, release.ControllerManager}},
		{pki.ServiceAccountPart, 2, 3, []string{saPub}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 0, 1, []string{encryptionConfig}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 1, 2, []string{encryptionConfig}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 2, 3, []string{encryptionConfig}, nil, []string{release.APIServer}},
	} {
		s := testSpec(t)
		s.Bundle = at(t, s.Bundle, c.part, c.from)
		target := at(t, s.Bundle, c.part, c.to)
		f := converged(t, s)
		s.Bundle = target
		d := mustDecide(t, s, f, now)
		var changed []string
		for _, file := range fixedFiles(s.Replica) {
			if f.facts.Files[file.Path].SHA256 != digest(file.Content) {
				changed = append(changed, file.Path)
			}
		}
		for _, list := range [][]string{changed, c.changed, c.issued} {
			slices.Sort(list)
		}
		if !slices.Equal(changed, c.changed) {
			t.Errorf("%s %d→%d changes %q, want %q", c.part, c.from, c.to, changed, c.changed)
		}
		if issued := rewritten(s, d); !slices.Equal(issued, c.issued) {
			t.Errorf("%s %d→%d issues %q, want %q", c.part, c.from, c.to, issued, c.issued)
		}
		if !slices.Equal(d.restart, c.restart) {
			t.Errorf("%s %d→%d restarts %q, want %q", c.part, c.from, c.to, d.restart, c.restart)
		}
		if len(drift(s.Replica, f, now)) == 0 {
			t.Errorf("%s %d→%d is no drift", c.part, c.from, c.to)
		}
		if after := converged(t, s); len(drift(s.Replica, after, now)) > 0 || !sameGenerations(after.record.Generations, target.Generations()) {
			t.Errorf("%s at %d: drift %q, record %v", c.part, c.to, drift(s.Replica, after, now), after.record.Generations)
		}
	}
}

func TestARecordOfAnEarlierVersionIsOfTheFirstGeneration(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	f.record.Generations = nil
	if words := drift(s.Replica, f, now); len(words) > 0 {
		t.Errorf("drift %q", words)
	}
	s.Bundle = at(t, s.Bundle, pki.FrontProxyPart, 1)
	if words := drift(s.Replica, f, now); !slices.Contains(words, "cp1 (10.0.0.11): is at generation 0 of front-proxy, wanted 1") {
		t.Errorf("drift %q", words)
	}
}

// TestKeysThatAreNotForTheMachine: what another bundle has put there goes.
func TestKeysThatAreNotForTheMachine(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	edit(&f, encryptionConfig, "a key")
	s.Bundle = signedElsewhere(t, s)
	d := mustDecide(t, s, f, now)
	if want := []string{caKey, signingCA, encryptionConfig}; !slices.Equal(d.remove, want) {
		t.Errorf("removes %q, want %q", d.remove, want)
	}
	for _, file := range d.files {
		if slices.Contains(d.remove, file.Path) {
			t.Errorf("%s is removed and written", file.Path)
		}
	}
	words := strings.Join(drift(s.Replica, f, now), "\n")
	for _, path := range d.remove {
		if !strings.Contains(words, path+" is there") {
			t.Errorf("%s is no drift:\n%s", path, words)
		}
	}
	if left := drift(s.Replica, converged(t, s), now); len(left) > 0 {
		t.Errorf("drift with what was signed elsewhere: %q", left)
	}
}

func TestPreflightKnowsEveryStage(t *testing.T) {
	s := testSpec(t)
	next := at(t, s.Bundle, pki.KubernetesPart, 1)
	last := at(t, next, pki.KubernetesPart, 3)
	for name, content := range map[string]string{"first": s.Bundle.Roots(pki.Kubernetes), "both": next.Roots(pki.Kubernetes), "last": last.Roots(pki.Kubernetes)} {
		s.Bundle = last
		f := bare()
		f.facts.Files[caCert] = host.FileState{Content: content}
		if err := preflight(s.Replica, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLeavesAreAllThatIsIssued(t *testing.T) {
	s := testSpec(t)
	var want, have []string
	for _, c := range certificates(s.Replica) {
		want = append(want, c.leaf.Name)
	}
	for _, k := range kubeconfigs(s.Replica) {
		want = append(want, k.leaf.Name)
	}
	want = append(want, "terraform-provider-kube")
	for _, leaf := range Leaves(s.names()) {
		have = append(have, leaf.Name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("leaves %q, want %q", have, want)
	}
	s.NoAdminConf = true
	if got, want := len(s.leaves()), len(certificates(s.Replica))+len(kubeconfigs(s.Replica))+1; got != want || got != len(have)-1 {
		t.Errorf("%d leaves without admin.conf, want %d", got, want)
	}
}

func TestEncryptionConfiguration(t *testing.T) {
	kms := func(name string, resources ...string) pki.Encryption {
		return pki.Encryption{Kind: pki.KMS, Resources: resources, Name: name, Endpoint: "unix:///run/kms.sock", Timeout: "3s"}
	}
	cbc := secretbox("key2", "secrets")
	cbc.Kind = pki.AESCBC
	between := func(generation int, first, second pki.Encryption) *pki.Bundle {
		return &pki.Bundle{Encryption: first, EncryptionRotation: pki.Rotation[pki.Encryption]{Generation: generation, Other: &second}}
	}
	for name, b := range map[string]*pki.Bundle{
		"steady":          encrypting(&pki.Bundle{}, secretbox("key1", "configmaps", "secrets")),
		"plain-to-key":    between(1, pki.Encryption{}, secretbox("key1", "secrets")),
		"key-from-plain":  between(2, secretbox("key1", "secrets"), pki.Encryption{}),
		"key-to-plain":    between(2, pki.Encryption{}, secretbox("key1", "secrets")),
		"other-resources": between(5, secretbox("key2", "configmaps", "secrets"), secretbox("key1", "secrets")),
		"cbc-to-kms":      between(4, cbc, kms("vault", "secrets")),
	} {
		t.Run(name, func(t *testing.T) { golden(t, "encryption-"+name+".yaml", encryptionText(b)) })
	}
	if (Replica{Bundle: between(3, pki.Encryption{}, secretbox("key1", "secrets"))}).encrypts() {
		t.Error("a steady plain bundle has something to read")
	}
}
