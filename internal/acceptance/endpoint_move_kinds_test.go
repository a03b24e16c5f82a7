package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// namedEndpoints has the endpoints dns and bgp beside those of the example.
const namedEndpoints = `
resource "kube_control_plane_endpoint" "dns" {
  count = contains(var.endpoints, "dns") ? 1 : 0

  address = %q
  pki     = kube_pki_bundle.this.bundle
  dns     = { targets = var.machines, zone = %q, server = %q, name_servers = %s, tsig_key = %q, ttl = "5s" }

  lifecycle { create_before_destroy = true }
}

resource "kube_control_plane_endpoint" "bgp" {
  count = contains(var.endpoints, "bgp") ? 1 : 0

  address = %q
  pki     = kube_pki_bundle.this.bundle
  bgp     = { targets = var.machines, asn = %d, peers = [{ address = %q, asn = %d, bfd = true }] }

  lifecycle { create_before_destroy = true }
}
`

// namedOverride lets var.endpoints name them.
const namedOverride = `
provider "kube" {
  tsig_keys = { %q = { secret = %q } }
}

locals {
  registrations = {
    virtual_ip = one(kube_control_plane_endpoint.virtual_ip[*].registration)
    dns        = one(kube_control_plane_endpoint.dns[*].registration)
    bgp        = one(kube_control_plane_endpoint.bgp[*].registration)
  }
  urls = {
    virtual_ip = one(kube_control_plane_endpoint.virtual_ip[*].url)
    dns        = one(kube_control_plane_endpoint.dns[*].url)
    bgp        = one(kube_control_plane_endpoint.bgp[*].url)
  }
}
`

// TestMoveKinds moves a control plane from a virtual IP to a DNS name, and from that to an address that its machines
// announce, while clients of each work.
func TestMoveKinds(t *testing.T) {
	m := &moving{T: t, names: []string{"cp1", "cp2", "cp3"}}
	m.w = storyIn(t, append(m.names, "cp4"), checkout(t), "examples/moving-endpoint")
	rebuiltAfter(t, append(m.names, "cp4")...)
	m.lb = shared.lab.Machine("cp4")
	n, r := startNameServers(t, m.lb), startRouter(t, m.lb)
	servers, err := json.Marshal([]string{n.Address.String(), n.At(services.SecondaryPort)})
	if err != nil {
		t.Fatal(err)
	}
	extend(t, m.w, fmt.Sprintf(namedEndpoints, services.APIName, services.Zone, n.Address, servers, services.TSIGName,
		services.Anycast, services.ReplicasASN, r.Address, services.RouterASN))
	permitted := filepath.Join(m.w.Dir, "variables.tf") // an override file cannot change a validation
	variables, err := os.ReadFile(permitted)
	if err != nil {
		t.Fatal(err)
	}
	write(t, permitted, strings.Replace(string(variables), `["virtual_ip", "balancer"])`,
		`["virtual_ip", "dns", "bgp"])`, 1))
	override(t, m.w, fmt.Sprintf(namedOverride, services.TSIGName, n.Secret))
	clientsOf := func(criteria load.Criteria, dial load.Dial) *clients {
		t.Helper()
		return startClients(t, load.Config{Kubeconfig: outputOf(t, m.w, "kubeconfig"), Criteria: criteria, Dial: dial})
	}

	m.use("", "virtual_ip")
	atVIP := clientsOf(unnoticed(), nil)
	m.write("", "virtual_ip", "bgp")
	expectContains(t, refused(t, m.w), "Invalid endpoints", "HAProxy")
	m.use("", "virtual_ip", "dns")
	n.expect(t, m.names...)
	m.use("", "dns", "virtual_ip")
	undisturbed(t, atVIP)
	atName := clientsOf(unnoticed(), n.Dial(t.Output()))
	m.use("", "dns")
	m.withoutHAProxy()
	n.expect(t, m.names...)
	if t.Failed() {
		t.FailNow()
	}
	m.use("", "dns", "bgp")
	r.await(t, m.names...)
	m.use("", "bgp", "dns")
	undisturbed(t, atName)
	announced := clientsOf(rerouted(), nil)
	m.use("", "bgp")
	n.expect(t)
	r.await(t, m.names...)
	undisturbed(t, announced)
	apply(t, m.w, "-destroy")
	for _, name := range m.names {
		left := onMachine(t, shared.lab.Machine(name), "ls -d /etc/kube-endpoint-* /etc/haproxy/kube 2>/dev/null || :")
		if left != "" {
			t.Errorf("%s still has %s", name, left)
		}
	}
}
