package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// othersEtcd is a configuration of etcd alone. In the test, it is that of another team.
const othersEtcd = `
terraform {
  required_providers { kube = { source = "kubequorum/kube" } }
}
provider "kube" {
  ssh       = { user = "root", private_key = var.ssh_private_key, known_hosts = var.ssh_known_hosts }
  artifacts = var.artifacts
}
variable "ssh_private_key" { type = string }
variable "ssh_known_hosts" { type = string }
variable "artifacts" { type = object({ directory = string }) }
variable "endpoint_address" { type = string }
resource "kube_pki_bundle" "this" {
  cluster_name        = "etcd"
  deletion_protection = false
  etcd_ca             = { certificate = %q, private_key = %q }
}
resource "kube_etcd_member" "this" {
  name    = %[3]q
  host    = { address = %[4]q }
  peers   = { %[3]q = %[4]q }
  pki     = kube_pki_bundle.this.bundle
  version = %[5]q
}
output "url" { value = kube_etcd_member.this.client_url }
`

// TestExternalBalancerAndEtcd is the life of replicas whose etcd and whose balancer belong to others. Etcd's
// owners sign the certificates of the API servers.
func TestExternalBalancerAndEtcd(t *testing.T) {
	w := storyIn(t, []string{"cp1", "cp2", "cp3", "cp4"}, checkout(t), "examples/external-balancer-and-etcd")
	bare := fingerprints(t, "cp1", "cp2", "cp3")
	lb := shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := lb.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := services.InstallBalancers(t.Context(), lb); err != nil {
		t.Fatal(err)
	}
	startBalancer(t, services.HAProxy, lb, targetsOn("cp1", "cp2"), "/readyz")
	owners := newSigner(t)
	ca := owners.bundle.EtcdCA
	etcd := storyFrom(t, []string{"cp3"}, filepath.Join(t.TempDir(), "etcd"), func(w *workspace.Workspace) error {
		config := fmt.Sprintf(othersEtcd, ca.Certificate, ca.PrivateKey, "cp3", address("cp3"), defaults(t).etcd)
		return w.MakeFrom(t.Context(), fstest.MapFS{"main.tf": &fstest.MapFile{Data: []byte(config)}}, t.Output())
	})
	apply(t, etcd)

	variables := map[string]any{
		"endpoint_address": lb.Address.String(), "health_check": map[string]any{"interval": "500ms", "threshold": 2},
		"etcd_urls": []string{strings.TrimSpace(outputOf(t, etcd, "url"))}, "etcd_ca_certificate": ca.Certificate,
	}
	use := func(names ...string) {
		t.Helper()
		all := maps.Clone(variables)
		all["machines"] = addresses(names)
		if err := w.WriteJSON("z.auto.tfvars.json", all); err != nil {
			t.Fatal(err)
		}
	}
	use("cp1", "cp2")
	expectContains(t, refused(t, w), "Signed certificates are missing", "apiserver-etcd-client")
	apply(t, w, "-target=kube_certificate_requests.this")
	variables["etcd_client_certificates"] = owners.signClients(t, w)
	use("cp1", "cp2")
	apply(t, w)
	expectEmptyPlan(t, w)
	for _, name := range []string{"cp1", "cp2"} {
		onMachine(t, shared.lab.Machine(name), `set -e
test ! -e /etc/systemd/system/etcd.service
test ! -e /etc/haproxy/kube
! ls /etc/kubernetes/pki/etcd/ca.key /etc/kubernetes/pki/apiserver-etcd-ca.key 2>/dev/null`)
	}

	l := startLoad(t, outputOf(t, w, "kubeconfig"))
	apply(t, w, "-replace="+replicaAddress("cp2"))
	use("cp1")
	apply(t, w)
	undisturbed(t, l)
	keys := onMachine(t, shared.lab.Machine("cp3"), ctl+"etcdctl get --prefix --keys-only --limit=1 /registry/")
	if !strings.Contains(keys, "/registry/") {
		t.Errorf("the etcd of others has no objects: %q", keys)
	}
	apply(t, w, "-destroy")
	apply(t, etcd, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp3")
}

// signClients signs the requests in the output etcd_client_requests, by machine.
func (s *signer) signClients(t *testing.T, w *workspace.Workspace) map[string]string {
	t.Helper()
	out, err := w.Run(t.Context(), "output", "-json", "etcd_client_requests")
	if err != nil {
		t.Fatal(err)
	}
	certificates := map[string]string{}
	if err := json.Unmarshal([]byte(out), &certificates); err != nil {
		t.Fatal(err)
	}
	for name, text := range certificates {
		one := request{Request: text, Authority: "etcd", Usages: []string{"client auth"}}
		if certificates[name], err = s.signOne(one, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return certificates
}
