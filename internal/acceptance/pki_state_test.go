package acceptance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// stateConfig contains only resources that exist in the state and need no machine.
const stateConfig = `
terraform {
  required_providers {
    kube = { source = "kubequorum/kube" }
  }
}

variable "endpoint_address" { type = string }
variable "ssh_private_key" { type = string }
variable "ssh_known_hosts" { type = string }
variable "artifacts" { type = any }

variable "passphrase" {
  type      = string
  default   = null
  ephemeral = true
  sensitive = true
}
variable "kubernetes_key" {
  type      = string
  default   = null
  ephemeral = true
  sensitive = true
}

provider "kube" {}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "sealed"
}

resource "kube_kubeconfig" "admin" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
}
`

const (
	sealedState = `
provider "kube" {
  seal = { identities = var.identities, recipients = var.recipients }
}
`
	lockedState = `
provider "kube" {
  seal = { identities = var.identities, passphrase = var.passphrase }
}
`
	// introduced begins a rotation of everything, with a user-supplied authority.
	introduced = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  ca = {
    certificate            = file("${path.module}/kubernetes.pem")
    %s
  }
  encryption = { provider = "secretbox" }
  rotation   = { kubernetes = 1, etcd = 1, front_proxy = 1, service_account = 1, encryption = 1 }
}
`
)

// TestSealState seals a state that was stored in the clear, rotates it, changes its recipients,
// and rejects an identity that cannot open it. It needs no machine.
func TestSealState(t *testing.T) {
	l := machines(t) // for the CLI, as in TestBadInput
	w, err := workspace.Open(t.Context(), l, t.TempDir(), os.Getenv("KUBE_TEST_TERRAFORM"))
	if err != nil {
		t.Fatal(err)
	}
	detectRaces(t, w)
	files := fstest.MapFS{"main.tf": {Data: []byte(stateConfig + sealVariables)}}
	if err := w.MakeFrom(t.Context(), files, t.Output()); err != nil {
		t.Fatal(err)
	}
	first, second := newIdentity(t), newIdentity(t)
	identify(t, w)
	output := plan(t, w)
	expectContains(t, output, "stored unencrypted")
	if n := strings.Count(output, "Warning:"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, output)
	}
	apply(t, w)
	clear, err := pki.Parse(textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &secretScan{search: secretscan.New(), w: w, done: make(chan struct{})}
	h.addBundle(t, clear)
	h.search.AddFile("the kubeconfig", textOf(valuesOf(t, w, "kube_kubeconfig.admin"), "content"))
	if len(h.search.In(stateOf(t, w))) == 0 {
		t.Fatal("a state in the clear holds no key: the search finds nothing")
	}
	s := &sealing{w: w, secretScan: h, first: first, second: second, clear: clear}
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"sealed", s.seal},
		{"rotated", s.rotate},
		{"opened by others", s.readdress},
		{"behind a passphrase", s.lock},
		{"refused", s.refuse},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
}

// sealing is a state that goes through all operations with a seal.
type sealing struct {
	w             *workspace.Workspace
	secretScan    *secretScan
	first, second *age.X25519Identity
	clear         *pki.Bundle // as it was before
}

func stateOf(t *testing.T, w *workspace.Workspace) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// expectSealed expects that the state contains no key that was ever in it.
func (s *sealing) expectSealed(t *testing.T, identities ...*age.X25519Identity) {
	t.Helper()
	bundle := bundleOf(t, s.w, identities...)
	s.secretScan.addBundle(t, bundle)
	s.secretScan.search.AddFile("the kubeconfig", openedKubeconfig(t, s.w, identities...))
	for _, fragments := range s.secretScan.search.In(stateOf(t, s.w)) {
		t.Errorf("the state holds %s", fragments)
	}
}

func (s *sealing) seal(t *testing.T) {
	override(t, s.w, sealedState)
	identify(t, s.w, s.first)
	output := plan(t, s.w)
	expectContains(t, output, "# kube_pki_bundle.this will be updated in-place", "0 to add, 2 to change, 0 to destroy")
	if strings.Contains(output, "Warning:") {
		t.Errorf("a sealed state is warned of:\n%s", output)
	}
	apply(t, s.w)
	s.expectSealed(t, s.first)
	expectSealedFor(t, s.w, namesOf(s.first))
	if now := bundleOf(t, s.w, s.first); !now.Same(s.clear, pki.Parts()...) {
		t.Error("another bundle was sealed than there was")
	}
}

// rotate introduces everything that can be rotated, with a user-supplied authority whose key is
// not stored anywhere.
func (s *sealing) rotate(t *testing.T) {
	mine := newRoot(t, "Example Kubernetes")
	s.secretScan.search.AddPEM("the user's authority", mine.privateKey(t))
	write(t, filepath.Join(s.w.Dir, "kubernetes.pem"), mine.chain())
	s.w.Env = append(s.w.Env, "TF_VAR_kubernetes_key="+mine.privateKey(t))
	override(t, s.w, sealedState+fmt.Sprintf(introduced, `private_key = <<-EOT
`+mine.privateKey(t)+`
EOT`))
	_, _, err := s.w.Plan(t.Context())
	if err == nil {
		t.Fatal("a key that would be stored in the clear was not refused")
	}
	expectContains(t, unfolded(err.Error()), "private_key_wo")
	for _, line := range strings.Split(strings.TrimSpace(mine.privateKey(t)), "\n")[1:3] {
		if strings.Contains(err.Error(), line) {
			t.Error("the refusal quotes the key")
		}
	}
	override(t, s.w, sealedState+fmt.Sprintf(introduced,
		"private_key_wo = var.kubernetes_key\n    private_key_wo_version = 1"))
	expectContains(t, plan(t, s.w, "-out=rotate.tfplan"), "# kube_pki_bundle.this will be updated in-place")
	apply(t, s.w, "rotate.tfplan")
	expectEmptyPlan(t, s.w)
	s.expectSealed(t, s.first)
	archive := map[string][]byte{}
	data, err := os.ReadFile(filepath.Join(s.w.Dir, "rotate.tfplan"))
	if err != nil {
		t.Fatal(err)
	}
	if err := secretscan.Unzip("the plan", data, archive); err != nil || len(archive) < 3 {
		t.Fatalf("the plan holds %d files: %v", len(archive), err)
	}
	for name, text := range archive {
		for _, fragments := range s.secretScan.search.In(text) {
			t.Errorf("%s holds %s", name, fragments)
		}
	}
	b := bundleOf(t, s.w, s.first)
	for part, generation := range b.Generations() {
		if generation != 1 {
			t.Errorf("%s is at generation %d, want 1", part, generation)
		}
	}
	if got := certificatesIn(b.CARotation.Other.Certificate); len(got) != 1 || got[0] != string(mine.certificate.Raw) {
		t.Error("what is introduced is not the user's authority")
	}
}

func (s *sealing) readdress(t *testing.T) {
	addressTo(t, s.w, s.first, s.second)
	resealed(t, s.w)
	s.expectSealed(t, s.second)
	identify(t, s.w, s.first, s.second)
	addressTo(t, s.w, s.second)
	resealed(t, s.w)
	s.expectSealed(t, s.second)
	identify(t, s.w, s.second)
	expectEmptyPlan(t, s.w)
}

// lock provides the identity as a file that age has encrypted with a passphrase.
func (s *sealing) lock(t *testing.T) {
	rotation := fmt.Sprintf(introduced, "private_key_wo = var.kubernetes_key\n    private_key_wo_version = 1")
	override(t, s.w, lockedState+rotation)
	locked := fmt.Sprintf("TF_VAR_identities=[%q]", lockedIdentity(t, s.second, "correct horse"))
	saved := s.w.Env
	s.w.Env = append(saved[:len(saved):len(saved)], locked, "TF_VAR_passphrase=correct horse")
	expectEmptyPlan(t, s.w)
	for passphrase, fragments := range map[string]string{
		"wrong horse": "the passphrase does not open it",
		"":            "which is not given",
	} {
		s.w.Env = append(saved[:len(saved):len(saved)], locked, "TF_VAR_passphrase="+passphrase)
		output := refused(t, s.w)
		expectContains(t, output, fragments)
		if passphrase != "" && strings.Contains(output, passphrase) {
			t.Error("the refusal quotes the passphrase")
		}
	}
	s.w.Env = saved
	override(t, s.w, sealedState+rotation)
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func lockedIdentity(t *testing.T, identity *age.X25519Identity, passphrase string) string {
	t.Helper()
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10) // keeps the test fast
	var text bytes.Buffer
	armored := armor.NewWriter(&text)
	writer, err := age.Encrypt(armored, recipient)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(writer, "# a comment\n%s\n", identity); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := armored.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// refuse tries the identity that was removed, and none. The state does not change.
func (s *sealing) refuse(t *testing.T) {
	before := stateOf(t, s.w)
	identify(t, s.w, s.first)
	addressTo(t, s.w, s.first)
	expectContains(t, refused(t, s.w), "the private keys are sealed", "none of the identities at hand opens them")
	override(t, s.w, "")
	expectContains(t, refused(t, s.w), "the private keys are sealed", "no identity")
	if !bytes.Equal(stateOf(t, s.w), before) {
		t.Error("a refusal has changed the state")
	}
}

// sealedEphemeral is ephemeralConfig with a seal.
const sealedEphemeral = `
provider "kube" {
  seal = { identities = [%q] }
}
`

// TestSealedEphemeral checks that a value that is used immediately and never stored is in the
// clear.
func TestSealedEphemeral(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	identity := newIdentity(t)
	readable := func(text string) error {
		_, err := pki.ParseKubeconfig(text)
		return err
	}
	locked := func(text string) error {
		if !strings.HasPrefix(text, armor.Header) {
			return fmt.Errorf("it is not sealed")
		}
		return nil
	}
	config := fmt.Sprintf(sealedEphemeral, identity.String()) + ephemeralConfig + `
resource "kube_kubeconfig" "stored" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
}
`
	runTest(t, resource.TestCase{
		Steps: []resource.TestStep{{
			Config: config,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue("echo.this", tfjsonpath.New("data").AtMapKey("content"),
					knownvalue.StringFunc(readable)),
				statecheck.ExpectKnownValue("kube_kubeconfig.stored", tfjsonpath.New("content"), knownvalue.StringFunc(locked)),
				statecheck.ExpectKnownValue("kube_kubeconfig.stored", tfjsonpath.New("client_key"), knownvalue.StringFunc(locked)),
			},
		}},
	}, func(factories map[string]func() (tfprotov6.ProviderServer, error)) {
		factories["echo"] = echoprovider.NewProviderServer()
	})
}
