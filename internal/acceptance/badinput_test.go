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

// badInput is one configuration error and the expected diagnostic. No machine is contacted:
// every address is in a network that does not exist.
type badInput struct {
	name  string
	edits []string // old, new, … applied to goodConfig in order
	want  string   // regular expression over the diagnostics, line breaks folded
}

// goodConfig is a configuration without errors.
const goodConfig = `
provider "kube" {
  ssh = {
    private_key = file("KEYS/id_ed25519")
    known_hosts = ""
  }
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "bad-input"
}

resource "kube_control_plane_endpoint" "this" {
  address = "192.0.2.100"
  pki     = kube_pki_bundle.this.bundle
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
  version       = "1.36.3"
  service_cidrs = ["10.96.0.0/12"]
  pod_cidrs     = ["10.244.0.0/16"]
  extra_args    = { apiserver = { v = "2" } }
}
`

var badInputs = []badInput{
	{
		"member name",
		[]string{`name       = "cp1"`, `name       = "cp 1"`, `{ cp1 = "192.0.2.11" }`, `{ "cp 1" = "192.0.2.11" }`},
		`Invalid member name.*Cause: member name "cp 1" is not a DNS name of at most 64 characters: use lower-case ` +
			`letters, digits and dashes`,
	},
	{
		"address that is no IP",
		[]string{`host       = { address = "192.0.2.11" }`, `host       = { address = "cp1.example" }`},
		`Invalid address.*Cause: "cp1.example" is not an IP address`,
	},
	{
		"loopback address",
		[]string{`host       = { address = "192.0.2.11" }`, `host       = { address = "127.0.0.1" }`},
		`Invalid address.*Cause: "127.0.0.1" cannot be reached from other machines`,
	},
	{
		"duplicate peer addresses",
		[]string{`peers      = { cp1 = "192.0.2.11" }`, `peers      = { cp1 = "192.0.2.11", cp2 = "192.0.2.11" }`},
		`Invalid peers.*Cause: peers lists 192.0.2.11 twice, for "cp1" and "cp2"`,
	},
	{
		"address not in peers",
		[]string{`peers      = { cp1 = "192.0.2.11" }`, `peers      = { cp2 = "192.0.2.12" }`},
		`Invalid peers.*Cause: peers does not contain this member: add "cp1" = "192.0.2.11"`,
	},
	{
		"address other than in peers",
		[]string{`peers      = { cp1 = "192.0.2.11" }`, `peers      = { cp1 = "192.0.2.12" }`},
		`Invalid peers.*Cause: peers lists "cp1" at 192.0.2.12, but its host.address is 192.0.2.11`,
	},
	{
		"malformed etcd version",
		[]string{`"3.6.16"`, `"v3.6"`},
		`Invalid etcd version.*Cause: etcd version "v3.6" is malformed: use a release such as "3.6.16", without a leading ` +
			`"v"`,
	},
	{
		"unknown etcd version",
		[]string{`"3.6.16"`, `"3.3.27"`},
		`Invalid etcd version.*Cause: etcd version "?3.3.27"? is not`,
	},
	{
		"malformed Kubernetes version",
		[]string{`"1.36.3"`, `"1.34"`},
		`Invalid Kubernetes version.*Cause: malformed Kubernetes version "1.34": want MAJOR.MINOR.PATCH`,
	},
	{
		"unknown Kubernetes version",
		[]string{`"1.36.3"`, `"1.12.3"`},
		`Invalid Kubernetes version.*Cause: unknown Kubernetes version "1.12.3": known are 1.32 to 1.37`,
	},
	{
		"malformed CIDR",
		[]string{`["10.244.0.0/16"]`, `["10.244.0.0"]`},
		`Invalid CIDRs.*Cause: malformed pod range "10.244.0.0": want ADDRESS/BITS`,
	},
	{
		"overlapping CIDRs",
		[]string{`["10.244.0.0/16"]`, `["10.97.0.0/16"]`},
		`Invalid CIDRs.*Cause: service range 10.96.0.0/12 overlaps pod range 10.97.0.0/16`,
	},
	{
		"additional name with a port",
		[]string{`["10.244.0.0/16"]`, "[\"10.244.0.0/16\"]\n  extra_sans = [\"api.example.com:6443\"]"},
		`Invalid name or address.*Cause: "api.example.com:6443" is neither a host name nor an IP address`,
	},
	{
		"another port than that of the balancer's targets",
		[]string{
			`haproxy = { hosts = { cp1 = "192.0.2.11", cp2 = "192.0.2.12" } }`,
			`external = { targets = { cp1 = "192.0.2.11" }, target_port = 7443 }`,
		},
		`Replica and endpoint have different ports.*Cause: the balancer of the endpoint 192.0.2.100 \(external\) sends ` +
			`requests to port 7443 of its targets, and the replica has port 6443`,
	},
	{
		"interface that is no name",
		[]string{`haproxy = { hosts`, `haproxy = { interface = "eth 0", hosts`},
		`Invalid interface.*Cause: "eth 0" is not the name of a network interface`,
	},
	{
		"flag of the provider's on etcd",
		[]string{`quota-backend-bytes`, `initial-cluster`},
		`Invalid extra arguments.*Cause: extra argument "initial-cluster" is managed by the provider: it controls how the ` +
			`cluster is bootstrapped`,
	},
	{
		"flag of the provider's on the API server",
		[]string{`{ v = "2" }`, `{ etcd-servers = "https://x" }`},
		`Invalid extra arguments.*Cause: kube-apiserver: flag "etcd-servers" cannot be set: it follows from the setting ` +
			`"etcd"`,
	},
	{
		"audit policy without rules",
		[]string{
			`extra_args    = {`,
			"audit = { policy = \"apiVersion: audit.k8s.io/v1\\nkind: Policy\\n\" }\n  extra_args    = {",
		},
		`Invalid audit settings.*Cause: audit policy has no rules: the API server does not start with it`,
	},
	{
		"audit setting and flag",
		[]string{
			`extra_args    = { apiserver = { v = "2" }`,
			"audit = { max_age_days = 9 }\n  extra_args    = { apiserver = { audit-log-maxage = \"3\" }",
		},
		`Invalid audit settings.*Cause: audit.max_age_days and the flag "audit-log-maxage" of extra_args.apiserver say the ` +
			`same thing twice; drop the flag`,
	},
	{
		"logins by settings and by flags",
		[]string{
			`extra_args    = { apiserver = { v = "2" }`,
			"authentication = { anonymous_paths = [\"/version\"] }\n  extra_args    = { apiserver = { oidc-client-id = \"x\" }",
		},
		`Invalid authentication settings.*Cause: authentication is set, and by a flag "oidc-…" of extra_args.apiserver too`,
	},
	{
		"issuer without TLS",
		[]string{`extra_args    = {`, "authentication = { jwt = yamlencode([{ issuer = { url = \"http://x\", audiences = " +
			"[\"k\"] }, claimMappings = { username = { claim = \"sub\", prefix = \"\" } } }]) }\n  extra_args    = {"},
		`Invalid authentication settings.*Cause: authentication.jwt\[0\]: issuer.url is "http://x": it must be an https URL`,
	},
	{
		"limits that contradict each other",
		[]string{
			`extra_args    = {`,
			"resources = { scheduler = { memory_high = \"2G\", memory_max = \"1G\" } }\n  extra_args    = {",
		},
		`Invalid limits.*Cause: the unit is killed at 1G of memory, before it is slowed at 2G`,
	},
	{
		"amount of memory",
		[]string{
			`extra_args = { quota-backend-bytes`,
			"resources = { memory_max = \"4GB\" }\n  extra_args = { quota-backend-bytes",
		},
		`Invalid amount of memory.*Cause: malformed amount of memory "4GB"`,
	},
	{
		"schedule of snapshots",
		[]string{
			`extra_args = { quota-backend-bytes`,
			"snapshots = { schedule = \"0 2 * * *\" }\n  extra_args = { quota-backend-bytes",
		},
		`Invalid schedule.*Cause: schedule "0 2 \* \* \*" is not a systemd calendar expression`,
	},
	{
		"environment file of snapshots",
		[]string{
			`extra_args = { quota-backend-bytes`,
			"snapshots = { environment_file = \"rclone.env\" }\n  extra_args = { quota-backend-bytes",
		},
		`Invalid environment file.*Cause: environment file "rclone.env" is not a clean absolute path`,
	},
	{
		"etcd URL without TLS",
		[]string{`["https://192.0.2.11:2379"]`, `["http://192.0.2.11:2379"]`},
		`Invalid etcd URLs.*Cause: etcd URL "http://192.0.2.11:2379" is not https`,
	},
	{
		"virtual IP that is no IP",
		[]string{`address = "192.0.2.100"`, `address = "api.example"`},
		`Invalid endpoint address.*Cause: "api.example" is not an IP address`,
	},
	{
		"virtual IP that is a machine's",
		[]string{`address = "192.0.2.100"`, `address = "192.0.2.12"`},
		`Invalid endpoint hosts.*Cause: host cp2: 192.0.2.12 is the endpoint's own address`,
	},
	{
		"PKI bundle",
		[]string{`pki           = kube_pki_bundle.this.bundle`, `pki = "nonsense"`},
		`Invalid PKI bundle.*Cause: read pki bundle: it is not the JSON of a bundle`,
	},
	{
		"CA certificate",
		[]string{`address = "192.0.2.100"`, "address = \"192.0.2.100\"\n  ca_certificate = \"nonsense\""},
		`Invalid CA certificate.*Cause: inspect certificate: no PEM certificate in it`,
	},
	{
		"unreadable private key",
		[]string{`file("KEYS/id_ed25519")`, `"nonsense"`},
		`Setting: ssh.private_key Cause: not a private key in PEM format: give the key's content, not its path`,
	},
	{
		"public key as private key",
		[]string{`file("KEYS/id_ed25519")`, `file("KEYS/id_ed25519.pub")`},
		`Setting: ssh.private_key Cause: this is a public key; the private key is the file without .pub`,
	},
	{
		"encrypted key without passphrase",
		[]string{`file("KEYS/id_ed25519")`, `file("KEYS/id_encrypted")`},
		`Setting: ssh.private_key Cause: the key is encrypted and no passphrase is set`,
	},
	{
		"wrong passphrase",
		[]string{`file("KEYS/id_ed25519")`, "file(\"KEYS/id_encrypted\")\n    passphrase = \"wrong\""},
		`Setting: ssh.passphrase Cause: it does not decrypt the private key`,
	},
	{
		"malformed pinned key",
		[]string{`known_hosts = ""`, `hosts = { "192.0.2.11" = { host_key = "nonsense" } }`},
		`Setting: ssh.hosts\["192.0.2.11"\].host_key Cause: not a public key in authorized_keys format`,
	},
	{
		"artifact URL without TLS",
		[]string{
			`provider "kube" {`,
			"provider \"kube\" {\n  artifacts = { etcd = { url = \"http://192.0.2.1/{name}\", checksum_url = " +
				"\"https://192.0.2.1/sums\" } }",
		},
		`Setting: artifacts.etcd.url Cause: "http://192.0.2.1/{name}": only https is allowed`,
	},
	{
		"unreachable machine",
		nil,
		`Cause: observe the machine on 192.0.2.11: connect to 192.0.2.11 at 192.0.2.11:22: unreachable over ` +
			`SSH.*Unchanged: nothing was changed.`,
	},
}

func TestBadInput(t *testing.T) {
	machines(t) // runs in the lab's network, where the addresses cannot belong to a real host
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

// makeKeys creates a directory with an ordinary and an encrypted key.
func makeKeys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, passphrase := range map[string]string{"id_ed25519": "", "id_encrypted": "right"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f",
			filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("make key: %v\n%s", err, out)
		}
	}
	return dir
}

// edited applies pairs of old and new text. Each old text must be present.
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

// folded matches pattern in text that the CLI has wrapped and framed: every space of the
// pattern matches any run of spaces, line breaks and frame characters.
func folded(pattern string) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf("(?s)%s", strings.ReplaceAll(pattern, " ", `[\s│]+`)))
}
