package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// requestsFile is added to the example: the certificates to sign for each machine, and with the
// file of the signed ones what queries the control plane of cp1.
const requestsFile = `
locals {
  signed = { keys = kube_certificate_requests.this["cp1"].keys, certificates = jsondecode(file(%q)) }
}
resource "kube_certificate_requests" "this" {
  for_each    = var.machines
  pki         = kube_pki_bundle.this.bundle
  etcd_member = { name = each.key, address = each.value }
  replica     = { name = each.key, address = each.value, endpoint = var.endpoint_address }
}
`

// signedOverride removes the keys from the example's bundle and adds the signed certificates to
// the example's resources.
func signedOverride(s *signer, bundle string) string {
	signed := func(machine string) string {
		return fmt.Sprintf("signed = {\nkeys = kube_certificate_requests.this[%s].keys\ncertificates = "+
			"jsondecode(file(%q))\n}", machine, s.file)
	}
	return fmt.Sprintf(`
resource "kube_pki_bundle" "this" {
deletion_protection = false
%s
}
resource "kube_etcd_member" "this" {
%[2]s
}
resource "kube_control_plane_replica" "this" {
%[2]s
}
resource "kube_kubeconfig" "admin" {
%[3]s
}
`, bundle, signed("each.key"), signed(`"cp1"`))
}

// TestExternalAuthorities runs a control plane whose three authorities all have external keys.
// It requests the certificates, runs with them, installs renewed certificates without
// restarting etcd or the API server, and goes through a rotation. No machine has an authority's
// key, until the keys are supplied for a while.
func TestExternalAuthorities(t *testing.T) {
	l := machines(t)
	m, s := l.Machine("cp1"), newSigner(t)
	before := fingerprint(t, m)
	w := newWorkspace(t, 1)
	write(t, filepath.Join(w.Dir, "requests.tf"), fmt.Sprintf(requestsFile, s.file))
	override(t, w, signedOverride(s, s.authorities()))

	apply(t, w, "-target=kube_certificate_requests.this")
	expectContains(t, refused(t, w), "Signed certificates are missing", "etcd/server (etcd CA)",
		"kubernetes-admin (kubernetes CA)",
		`sign requests["etcd/server"], requests["etcd/peer"], requests["etcd/healthcheck-client"]`)
	sign(t, w, s)
	apply(t, w)
	expectHealthy(t, w, []string{"cp1"})
	expectInstalled(t, s)
	if got := authorityKeys(t); got != "" {
		t.Errorf("keys of authorities are on the machine: %s", got)
	}

	running := processes(t, "cp1")
	sign(t, w, s)
	apply(t, w)
	expectInstalled(t, s)
	// These two read their kubeconfigs only when they start.
	expectRestarted(t, running, []string{"cp1 kube-controller-manager", "cp1 kube-scheduler"})
	expectHealthy(t, w, []string{"cp1"})
	useAPI(t, w)

	rotateExternal(t, w, s)
	supplyKeys(t, w, s)
	apply(t, w, "-destroy")
	sameMachine(t, m, before)
}

// supplyKeys supplies the keys of all authorities, and moves them back to the signer, which signs then. The authorities
// stay the same.
func supplyKeys(t *testing.T, w *workspace.Workspace, s *signer) {
	t.Helper()
	const rotation = "rotation = { etcd = 3 }\n"
	running := processes(t, "cp1")
	override(t, w, fmt.Sprintf("resource \"kube_pki_bundle\" \"this\" {\ndeletion_protection = false\n%s%s}\n",
		rotation, s.keyedAuthorities()))
	apply(t, w)
	expectHealthy(t, w, []string{"cp1"})
	expectInstalled(t, s)
	expectRestarted(t, running, []string{"cp1 kube-controller-manager"})
	if got := authorityKeys(t); got != "/etc/kubernetes/pki/ca.key" {
		t.Errorf("keys of authorities on the machine: %q", got)
	}
	override(t, w, signedOverride(s, rotation+s.authorities()))
	apply(t, w, "-target=kube_certificate_requests.this")
	sign(t, w, s)
	apply(t, w)
	expectHealthy(t, w, []string{"cp1"})
	expectInstalled(t, s)
	if got := authorityKeys(t); got != "" {
		t.Errorf("keys of authorities are left on the machine: %q", got)
	}
	state, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	for attribute, pair := range s.pairs() {
		key := strings.Split(strings.TrimSpace(pair.PrivateKey), "\n")[1]
		if strings.Contains(string(state), key) {
			t.Errorf("the state still has the key of %s", attribute)
		}
	}
}

// authorityKeys returns the paths of the keys of authorities on the machine.
func authorityKeys(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(onMachine(t, shared.lab.Machine("cp1"),
		"ls /etc/kubernetes/pki/*ca*.key /etc/kubernetes/pki/etcd/ca.key 2>/dev/null || true"))
}

// rotateExternal rotates the etcd authority to another one with an external key. In each stage,
// the signer runs between the requests and the machines.
func rotateExternal(t *testing.T, w *workspace.Workspace, s *signer) {
	t.Helper()
	next := *s.bundle
	next.EtcdCA = newSigner(t).bundle.EtcdCA
	for number := 1; number <= 3; number++ {
		bundle := fmt.Sprintf("rotation = { etcd = %d }\n%s", number, (&signer{bundle: &next}).authorities())
		override(t, w, signedOverride(s, bundle))
		apply(t, w, "-target=kube_certificate_requests.this")
		if number == 2 { // the next authority issues from here on
			expectContains(t, refused(t, w), "Signed certificate cannot be used",
				`sign requests["etcd/server"] again with the etcd CA`)
			s.bundle = &next
			sign(t, w, s)
		}
		apply(t, w)
		expectHealthy(t, w, []string{"cp1"})
		expectInstalled(t, s)
	}
}

// sign signs all requests in the state.
func sign(t *testing.T, w *workspace.Workspace, s *signer) {
	t.Helper()
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Type != "kube_certificate_requests" {
			continue
		}
		var values struct {
			Requests map[string]request `json:"requests"`
		}
		if err := json.Unmarshal(r.Values, &values); err != nil {
			t.Fatal(err)
		}
		if err := s.sign(values.Requests, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
}

// expectInstalled expects the most recently signed certificates on the machine.
func expectInstalled(t *testing.T, s *signer) {
	t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	var certificates map[string]string
	if err := json.Unmarshal(text, &certificates); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"etcd/server", "etcd/peer", "etcd/healthcheck-client", "apiserver", "front-proxy-client",
		"apiserver-etcd-client",
	} {
		if got := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/pki/"+name+".crt"); strings.TrimSpace(
			got) != strings.TrimSpace(certificates[name]) {
			t.Errorf("%s is not the one that was signed", name)
		}
	}
}
