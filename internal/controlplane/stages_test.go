package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestStages: what each step of each rotation writes and restarts.
func TestStages(t *testing.T) {
	serverLeaves := []string{
		component.APIServerCert, component.KeyPath(component.APIServerCert), component.KubeletClientCert,
		component.KeyPath(component.KubeletClientCert),
	}
	kubeconfigFiles := []string{component.AdminConf, component.ControllerManagerConf, component.SchedulerConf}
	for _, c := range []struct {
		part     pki.Part
		from, to int
		changed  []string // the fixed files
		issued   []string
		restart  []string
	}{
		{
			pki.KubernetesPart, 0, 1,
			[]string{component.CACert, component.ClientCA},
			kubeconfigFiles,
			[]string{release.ControllerManager, release.Scheduler},
		},
		{
			pki.KubernetesPart, 1, 2,
			[]string{component.CAKey, component.SigningCA},
			slices.Concat(kubeconfigFiles, serverLeaves),
			[]string{release.ControllerManager, release.Scheduler},
		},
		{
			pki.KubernetesPart, 2, 3,
			[]string{component.CACert, component.ClientCA},
			kubeconfigFiles,
			[]string{release.ControllerManager, release.Scheduler},
		},
		{
			pki.KubernetesPart, 3, 2,
			[]string{component.CACert, component.ClientCA},
			kubeconfigFiles,
			[]string{release.ControllerManager, release.Scheduler},
		},
		{pki.EtcdPart, 0, 1, []string{component.EtcdClientCA}, nil, []string{release.APIServer}},
		{pki.EtcdPart, 1, 2, nil, []string{component.EtcdClientCert, component.KeyPath(component.EtcdClientCert)}, nil},
		{pki.EtcdPart, 2, 3, []string{component.EtcdClientCA}, nil, []string{release.APIServer}},
		{pki.FrontProxyPart, 0, 1, []string{component.FrontProxyCA}, nil, nil},
		{
			pki.FrontProxyPart, 1, 2, nil,
			[]string{component.FrontProxyClientCert, component.KeyPath(component.FrontProxyClientCert)},
			nil,
		},
		{pki.FrontProxyPart, 2, 3, []string{component.FrontProxyCA}, nil, nil},
		{pki.ServiceAccountPart, 0, 1, []string{component.SAPub}, nil, []string{release.APIServer}},
		{
			pki.ServiceAccountPart, 1, 2,
			[]string{component.SAKey},
			nil,
			[]string{release.APIServer, release.ControllerManager},
		},
		{pki.ServiceAccountPart, 2, 3, []string{component.SAPub}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 0, 1, []string{component.EncryptionConfigPath}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 1, 2, []string{component.EncryptionConfigPath}, nil, []string{release.APIServer}},
		{pki.EncryptionPart, 2, 3, []string{component.EncryptionConfigPath}, nil, []string{release.APIServer}},
	} {
		s := testSpec(t)
		s.Bundle = cptest.At(t, s.Bundle, c.part, c.from)
		target := cptest.At(t, s.Bundle, c.part, c.to)
		f := converged(t, s)
		s.Bundle = target
		d := mustDecide(t, s, f, cptest.Now)
		var changed []string
		for _, file := range component.Files(s.Replica) {
			if f.Facts.Files[file.Path].SHA256 != machine.Digest(file.Content) {
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
		if len(drift(s.Replica, f, cptest.Now)) == 0 {
			t.Errorf("%s %d→%d is no drift", c.part, c.from, c.to)
		}
		if after := converged(t, s); len(drift(s.Replica, after, cptest.Now)) > 0 ||
			!sameGenerations(after.Record.Generations, target.Generations()) {
			t.Errorf("%s at %d: drift %q, record %v",
				c.part, c.to, drift(s.Replica, after, cptest.Now), after.Record.Generations)
		}
	}
}

func TestRecordWithoutGenerations(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	f.Record.Generations = nil
	if problems := drift(s.Replica, f, cptest.Now); len(problems) > 0 {
		t.Errorf("drift %q", problems)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.FrontProxyPart, 1)
	if problems := drift(s.Replica, f, cptest.Now); !slices.Contains(problems,
		"cp1 (10.0.0.11): is at generation 0 of front-proxy, wanted 1") {
		t.Errorf("drift %q", problems)
	}
}

// TestExternalKeysAreNotWritten: files of an earlier bundle are removed.
func TestExternalKeysAreNotWritten(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	edit(&f, component.EncryptionConfigPath, "a key")
	s.Bundle = signedElsewhere(t, s)
	d := mustDecide(t, s, f, cptest.Now)
	if want := []string{
		component.CAKey, component.SigningCA, component.EncryptionConfigPath,
	}; !slices.Equal(d.remove, want) {
		t.Errorf("removes %q, want %q", d.remove, want)
	}
	for _, file := range d.files {
		if slices.Contains(d.remove, file.Path) {
			t.Errorf("%s is removed and written", file.Path)
		}
	}
	problems := strings.Join(drift(s.Replica, f, cptest.Now), "\n")
	for _, path := range d.remove {
		if !strings.Contains(problems, path+" exists, but is not wanted") {
			t.Errorf("%s is no drift:\n%s", path, problems)
		}
	}
	if left := drift(s.Replica, converged(t, s), cptest.Now); len(left) > 0 {
		t.Errorf("drift with what was signed elsewhere: %q", left)
	}
}

func TestPreflightAtEveryStage(t *testing.T) {
	s := testSpec(t)
	next := cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	last := cptest.At(t, next, pki.KubernetesPart, 3)
	for name, content := range map[string]string{
		"first": s.Bundle.Roots(pki.Kubernetes), "both": next.Roots(pki.Kubernetes), "last": last.Roots(pki.Kubernetes),
	} {
		s.Bundle = last
		f := bare()
		f.Facts.Files[component.CACert] = host.FileState{Content: content}
		if err := machine.Preflight(s.Replica, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// signedElsewhere returns the bundle with the certificates that an external signer issued for
// the replica.
func signedElsewhere(t *testing.T, s Spec) *pki.Bundle {
	t.Helper()
	bundle := cptest.External(s.Bundle)
	bundle.Signed = map[string]pki.KeyPair{}
	for _, leaf := range component.Leaves(s.CertificateNames()) {
		if leaf.Authority != pki.Kubernetes {
			continue
		}
		pair, err := s.Bundle.Issue(leaf, cptest.Now, 0)
		if err != nil {
			t.Fatal(err)
		}
		bundle.Signed[leaf.Name] = pair
	}
	return bundle
}
