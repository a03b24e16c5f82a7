package acceptance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// badInput is one mistake and what the user is told. Nothing here reaches a
// machine: every address is in a network that is not there.
type badInput struct {
	name  string
	edits []string // old, new, … applied to goodConfig in order
	want  string   // regular expression over the diagnostics, line breaks folded
}

// goodConfig is a configuration without a mistake.
const goodConfig = `
provider "kube" {
  ssh = {
    private_key = file("KEYS/id_ed25519")
    known_hosts = ""
  }
}

resource "kube_pki_bundle" "this" {
  cluster_name = "bad-input"
}

resource "kube_control_plane_endpoint" "this" {
  address = "192.0.2.100"
  haproxy = { hosts = { cp1 = "192.0.2.11", cp2 = "192.0.2.12" } }
}

resource "kube_etcd_member" "this" {
  name       = "cp1"
  host       = { address = "192.0.2.11" }
  peers      = { cp1 = "192.0.2.11" }
  pki        = kube_pki_bundle.this.bundle
  version    = "3.6.16"
  extra_args = { quota-backend-bytes = "8589934592" }
}

resource "kube_control_plane_replica" "this" {
  name          = "cp1"
  host          = { address = "192.0.2.11" }
  endpoint      = kube_control_plane_endpoint.this.registration
  etcd          = ["https://192.0.2.11:2379"]
  pki           = kube_pki_bundle.this.bundle
  version       = "1.34.4"
  service_cidrs = ["10.96.0.0/12"]
  pod_cidrs     = ["10.244.0.0/16"]
  extra_args    = { apiserver = { v = "2" } }
}
`

var badInputs = []badInput{
	{"member name", []string{`name       = "cp1"`, `name       = "cp 1"`, `{ cp1 = "192.0.2.11" }`, `{ "cp 1" = "192.0.2.11" }`}, `Invalid member name.*cp 1`},
	{"address that is no IP", []string{`host       = { address = "192.0.2.11" }`, `host       = { address = "cp1.example" }`}, `Invalid address.*"cp1.example" is not an IP address`},
	{"loopback address", []string{`host       = { address = "192.0.2.11" }`, `host       = { address = "127.0.0.1" }`}, `Invalid address.*"127.0.0.1" cannot be reached by other machines`},
	{"duplicate peer addresses", []string{`peers      = { cp1 = "192.0.2.11" }`, `peers      = { cp1 = "192.0.2.11", cp2 = "192.0.2.11" }`}, `192.0.2.11`},
	{"address not in peers", []string{`peers      = { cp1 = "192.0.2.11" }`, `peers      = { cp2 = "192.0.2.12" }`}, `peers.*cp1`},
	{"malformed etcd version", []string{`"3.6.16"`, `"v3.6"`}, `Invalid etcd version.*v3.6`},
	{"unknown etcd version", []string{`"3.6.16"`, `"2.3.8"`}, `Invalid etcd version.*2.3.8`},
	{"malformed Kubernetes version", []string{`"1.34.4"`, `"1.34"`}, `Invalid Kubernetes version.*1.34`},
	{"unknown Kubernetes version", []string{`"1.34.4"`, `"1.12.3"`}, `Invalid Kubernetes version.*1.12.3`},
	{"malformed CIDR", []string{`["10.244.0.0/16"]`, `["10.244.0.0"]`}, `CIDR.*10.244.0.0`},
	{"overlapping CIDRs", []string{`["10.244.0.0/16"]`, `["10.97.0.0/16"]`}, `overlap`},
	{"flag of the provider's on etcd", []string{`quota-backend-bytes`, `initial-cluster`}, `initial-cluster`},
	{"flag of the provider's on the API server", []string{`{ v = "2" }`, `{ etcd-servers = "https://x" }`}, `etcd-servers`},
	{"etcd URL", []string{`["https://192.0.2.11:2379"]`, `["http://192.0.2.11:2379"]`}, `https`},
	{"virtual IP that is no IP", []string{`address = "192.0.2.100"`, `address = "api.example"`}, `api.example`},
	{"virtual IP that is a machine's", []string{`address = "192.0.2.100"`, `address = "192.0.2.12"`}, `192.0.2.12`},
	{"PKI bundle", []string{`pki           = kube_pki_bundle.this.bundle`, `pki = "nonsense"`}, `Invalid PKI bundle`},
	{"CA certificate", []string{`address = "192.0.2.100"`, "address = \"192.0.2.100\"\n  ca_certificate = \"nonsense\""}, `Invalid CA certificate`},
	{"unreadable private key", []string{`file("KEYS/id_ed25519")`, `"nonsense"`}, `ssh.private_key`},
	{"public key as private key", []string{`file("KEYS/id_ed25519")`, `file("KEYS/id_ed25519.pub")`}, `public key`},
	{"encrypted key without passphrase", []string{`file("KEYS/id_ed25519")`, `file("KEYS/id_encrypted")`}, `passphrase`},
	{"wrong passphrase", []string{`file("KEYS/id_ed25519")`, "file(\"KEYS/id_encrypted\")\n    passphrase = \"wrong\""}, `ssh.passphrase.*does not decrypt`},
	{"malformed pinned key", []string{`known_hosts = ""`, `hosts = { "192.0.2.11" = { host_key = "nonsense" } }`}, `ssh.hosts\["192.0.2.11"\].host_key.*not a public key`},
	{"artifact URL without TLS", []string{`provider "kube" {`, "provider \"kube\" {\n  artifacts = { etcd = { url = \"http://192.0.2.1/{name}\", checksum_url = \"https://192.0.2.1/sums\" } }"}, `https`},
	{"unreachable machine", nil, `unreachable|Unreachable`},
}

func TestBadInput(t *testing.T) {
	machines(t) // for the CLI's sake: without the lab's network an address might be somebody's
	keys := makeKeys(t)
	for _, c := range badInputs {
		t.Run(c.name, func(t *testing.T) {
			runTest(t, resource.TestCase{Steps: []resource.TestStep{{
				Config:      strings.ReplaceAll(edited(t, goodConfig, c.edits), "KEYS", keys),
				ExpectError: folded(c.want),
			}}})
		})
	}
}

// makeKeys makes a directory with an ordinary and an encrypted key.
func makeKeys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, passphrase := range map[string]string{"id_ed25519": "", "id_encrypted": "right"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("make key: %v\n%s", err, out)
		}
	}
	return dir
}

// edited applies pairs of old and new text, each of which must be there.
func edited(t *testing.T, text string, edits []string) string {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the configuration has no %q to edit", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

// folded matches pattern over text that the CLI has wrapped and framed: every
// blank of the pattern stands for any run of blanks, line breaks and frame.
func folded(pattern string) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf("(?s)%s", strings.ReplaceAll(pattern, " ", `[\s│]+`)))
}
