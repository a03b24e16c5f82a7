package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// badMachine is a machine that cannot be used in its state, and the expected diagnostic. spoil
// creates the state, and its result is inserted into the provider's ssh block.
type badMachine struct {
	name  string
	spoil func(t *testing.T, m *lab.Machine) (ssh string)
	want  string
}

// memberConfig is one etcd member on a machine: provider settings, address, key.
const memberConfig = `
provider "kube" {
  ssh = {
    private_key = <<-EOT
%s
EOT
    %s
  }
  artifacts = %s
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "bad-machine"
}

resource "kube_etcd_member" "this" {
  name    = "cp1"
  host    = { address = "%s" }
  peers   = { cp1 = "%[4]s" }
  pki     = kube_pki_bundle.this.bundle
  version = "3.6.16"
}
`

var badMachines = []badMachine{
	{
		"unknown host key", func(*testing.T, *lab.Machine) string { return `known_hosts = ""` },
		`Host key not trusted.*ssh-ed25519.*host_key =`,
	},
	{"changed host key", func(t *testing.T, m *lab.Machine) string {
		return fmt.Sprintf(`known_hosts = "%s %s"`, m.Address, otherKey(t))
	}, `Host key changed.*host_key =`},
	{"key that is not let in", func(t *testing.T, m *lab.Machine) string {
		return trusting(t, m) + "\n    user = \"nobody\""
	}, `SSH authentication refused`},
	{"user without root rights", func(t *testing.T, m *lab.Machine) string {
		onMachine(t, m, `useradd --create-home plain; install -d -m 700 -o plain /home/plain/.ssh; install -m 600 -o plain `+
			`/root/.ssh/authorized_keys /home/plain/.ssh/authorized_keys`)
		t.Cleanup(func() { onMachine(t, m, `userdel --remove plain 2>/dev/null`) })
		return trusting(t, m) + "\n    user = \"plain\""
	}, `No root privileges`},
	{"no systemd", func(t *testing.T, m *lab.Machine) string {
		sshdWithin(t, m, `unshare --mount --pid --fork --mount-proc sh -c "mount -t tmpfs none /run/systemd && `+
			`exec /usr/sbin/sshd -D -p 2222"`)
		return onPort2222(t, m)
	}, `systemd`},
	{"wrong architecture", func(t *testing.T, m *lab.Machine) string {
		sshdWithin(t, m, `setarch i686 /usr/sbin/sshd -D -p 2222`)
		return onPort2222(t, m)
	}, `architecture "386" is not supported`},
	{"taken port", func(t *testing.T, m *lab.Machine) string {
		onMachine(t, m, `systemd-run --quiet --unit=squatter systemd-socket-activate --accept --listen=0.0.0.0:2379 `+
			`/bin/cat; until ss -Hlnt | grep -q :2379; do sleep 0.05; done`)
		t.Cleanup(func() { onMachine(t, m, `systemctl stop squatter`) })
		return trusting(t, m)
	}, `port 2379`},
	{"data directory of another cluster", func(t *testing.T, m *lab.Machine) string {
		onMachine(t, m, `mkdir -p /var/lib/etcd/member /etc/etcd; `+
			`echo '{"cluster_id":"00000000000000000000000000000000","cluster_name":"other","name":"cp1"}' `+
			`>/etc/etcd/member.json`)
		t.Cleanup(func() { onMachine(t, m, `rm -r /var/lib/etcd /etc/etcd`) })
		return trusting(t, m)
	}, `another cluster|other cluster`},
}

func TestBadMachine(t *testing.T) {
	l := machines(t)
	m := l.Machine("cp1")
	for _, c := range badMachines {
		t.Run(c.name, func(t *testing.T) {
			config := fmt.Sprintf(memberConfig, privateKey(t, l), c.spoil(t, m), localArtifacts(), m.Address)
			before := fingerprint(t, m)
			runTest(t, resource.TestCase{Steps: []resource.TestStep{{Config: config, ExpectError: folded(c.want)}}})
			sameMachine(t, m, before)
		})
	}
}

// TestBadArtifact serves a program with the published checksum of another one. The machine
// downloads it itself and rejects it.
func TestBadArtifact(t *testing.T) {
	l := machines(t)
	m := l.Machine("cp1")
	address := l.Subnet.Addr().Next().String() // this computer's address within the lab
	url := serve(t, m, address, map[string]string{
		"/etcd":         "not what was published",
		"/etcd.sha256":  strings.Repeat("0", 64) + "  etcd\n",
		"/other.sha256": strings.Repeat("0", 64) + "\n",
	})
	artifacts := fmt.Sprintf(`{ etcd = { url = "%s/etcd", checksum_url = "%[1]s/etcd.sha256" } }`, url)
	config := fmt.Sprintf(memberConfig, privateKey(t, l), trusting(t, m), artifacts, m.Address)
	runTest(t, resource.TestCase{
		Steps: []resource.TestStep{{Config: config, ExpectError: folded(`artifact checksum differs.*SHA-256 mismatch`)}},
	})
	if out := onMachine(t, m, `ls -A /opt/kube/etcd/*/etcd 2>/dev/null || true`); out != "" {
		t.Errorf("a refused artifact stayed on the machine: %s", out)
	}
}

func localArtifacts() string { return fmt.Sprintf(`{ directory = "%s" }`, shared.components) }

func privateKey(t *testing.T, l *lab.Lab) string {
	t.Helper()
	key, err := l.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(key)
}

// hostKey returns the machine's key as in known_hosts, without the address.
func hostKey(t *testing.T, m *lab.Machine) string {
	t.Helper()
	return strings.TrimSpace(onMachine(t, m, `cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub`))
}

// otherKey returns a well-formed key that no machine has.
func otherKey(t *testing.T) string {
	t.Helper()
	return hostKey(t, shared.lab.Machine("cp2"))
}

func trusting(t *testing.T, m *lab.Machine) string {
	t.Helper()
	return fmt.Sprintf(`known_hosts = "%s %s"`, m.Address, hostKey(t, m))
}

func onPort2222(t *testing.T, m *lab.Machine) string {
	t.Helper()
	return fmt.Sprintf(`hosts = { "%s" = { port = 2222, host_key = "%s" } }`, m.Address, hostKey(t, m))
}

// sshdWithin runs a second sshd with command on port 2222 of the machine.
func sshdWithin(t *testing.T, m *lab.Machine, command string) {
	t.Helper()
	onMachine(t, m, fmt.Sprintf("systemd-run --quiet --unit=second-sshd --property=KillMode=control-group %s; until ss "+
		"-Hlnt | grep -q :2222; do sleep 0.05; done", command))
	t.Cleanup(func() { onMachine(t, m, `systemctl stop second-sshd`) })
}

// serve serves files over TLS on this computer's address in the lab, with a certificate that
// the machine trusts until the test ends.
func serve(t *testing.T, m *lab.Machine, address string, files map[string]string) (url string) {
	t.Helper()
	certificate, text := selfSigned(t, address)
	listener, err := tls.Listen("tcp", net.JoinHostPort(address, "0"),
		&tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			content, ok := files[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(content))
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	onMachine(t, m, "cat >/usr/local/share/ca-certificates/test.crt <<'EOF'\n"+text+
		"EOF\nupdate-ca-certificates >/dev/null 2>&1")
	t.Cleanup(func() {
		onMachine(t, m, `rm /usr/local/share/ca-certificates/test.crt; update-ca-certificates --fresh >/dev/null 2>&1`)
	})
	return "https://" + listener.Addr().String()
}

func selfSigned(t *testing.T, address string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "artifacts of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: slices.Clone([][]byte{der}), PrivateKey: key}, text
}
