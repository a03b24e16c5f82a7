package acceptance

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// externalConfig is two etcd members and one replica that uses both. Peers, the order of the
// etcd URLs and the names in the certificate are variables.
const externalConfig = `
provider "kube" {
  ssh = {
    user        = "admin"
    private_key = <<-EOT
%[1]s
EOT
    known_hosts = <<-EOT
%[2]s
EOT
  }
  artifacts = %[3]s
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name  = "quiet"
  key_algorithm = "RSA-2048"
}

resource "kube_control_plane_endpoint" "this" {
  address       = "%[4]s"
  pki           = kube_pki_bundle.this.bundle
  haproxy       = { hosts = { cp1 = "%[5]s" } }
  drain_timeout = "1s"
}

resource "kube_etcd_member" "cp1" {
  name    = "cp1"
  host    = { address = "%[5]s" }
  peers   = { %[7]s }
  pki     = kube_pki_bundle.this.bundle
  version = "%[9]s"
}

resource "kube_etcd_member" "cp2" {
  name    = "cp2"
  host    = { address = "%[6]s" }
  peers   = { %[7]s }
  pki     = kube_pki_bundle.this.bundle
  version = "%[9]s"
}

resource "kube_control_plane_replica" "cp1" {
  name     = "cp1"
  host     = { address = "%[5]s" }
  endpoint = kube_control_plane_endpoint.this.registration
  etcd     = %[8]s
  pki      = kube_pki_bundle.this.bundle
  version  = "%[10]s"
}
`

// TestNoRestart changes settings that no process depends on: the peers, which the plan shows, and
// the order of the etcd URLs, which is no change of a set. The apply restarts nothing. It
// connects as the user admin with sudo, and with RSA keys.
func TestNoRestart(t *testing.T) {
	l := machines(t)
	cp1, cp2 := l.Machine("cp1"), l.Machine("cp2")
	known, err := l.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	v := defaults(t)
	config := func(peers, urls string) string {
		return fmt.Sprintf(externalConfig, privateKey(t, l), known, localArtifacts(), vip, cp1.Address, cp2.Address, peers,
			urls, v.etcd, v.kubernetes)
	}
	peers := fmt.Sprintf("cp1 = %q, cp2 = %q", cp1.Address, cp2.Address)
	one, two := "kube_etcd_member.cp1.client_url", "kube_etcd_member.cp2.client_url"
	before := map[*lab.Machine][]string{cp1: fingerprint(t, cp1), cp2: fingerprint(t, cp2)}
	running := func() string {
		return starts(t, cp1) + onMachine(t, cp2, "systemctl show -p MainPID -p ActiveEnterTimestampMonotonic etcd")
	}
	var started string
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{
			Config: config(peers, "["+one+", "+two+"]"),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("kube_etcd_member.cp2", "drift.#", "0"),
				resource.TestCheckResourceAttr("kube_control_plane_replica.cp1", "registered", "true"),
				resource.TestCheckResourceAttr("kube_control_plane_replica.cp1", "drift.#", "0"),
				func(*terraform.State) error { started = running(); return nil },
			),
		},
		{
			Config: config(peers+fmt.Sprintf(", cp3 = %q", l.Machine("cp3").Address), "["+two+", "+one+"]"),
			Check: func(*terraform.State) error {
				if now := running(); now != started {
					return fmt.Errorf("processes were restarted:\nbefore:\n%s\nafter:\n%s", started, now)
				}
				return nil
			},
		},
	}})
	for m, clean := range before {
		sameMachine(t, m, clean)
	}
}
