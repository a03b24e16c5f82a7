package pki

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// expirationScript shows kubeadm the directory as /etc/kubernetes, in a mount namespace of its
// own, because kubeadm always searches for kubeconfigs there.
const expirationScript = `mount -t tmpfs none /etc
mkdir /etc/kubernetes
mount --bind "$1" /etc/kubernetes
exec "$2" certs check-expiration --config /etc/kubernetes/kubeadm.yaml --output json`

// TestKubeadmReadsProviderCertificates: kubeadm certs check-expiration finds all certificates of this package
// in its paths, and reports the expiry of each.
func TestKubeadmReadsProviderCertificates(t *testing.T) {
	binary := kubeadmBinary(t)
	if os.Geteuid() != 0 {
		testrun.Missing(t, "a mount namespace needs root")
	}
	made := time.Now()
	b, err := Generate(Options{ClusterName: "prod", Now: made})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := map[string]time.Time{} // by kubeadm's names
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("kubeadm.yaml", kubeadmConfig(binary.version, b.Algorithm, "/etc/kubernetes/pki"))
	for name, pair := range map[string]KeyPair{"ca": b.CA, "etcd/ca": b.EtcdCA, "front-proxy-ca": b.FrontProxyCA} {
		put("pki/"+name+".crt", pair.Certificate)
		put("pki/"+name+".key", pair.PrivateKey)
	}
	kubeadmNames := map[string]string{
		"etcd/server": "etcd-server", "etcd/peer": "etcd-peer",
		"etcd/healthcheck-client": "etcd-healthcheck-client",
	}
	for _, l := range catalogue() {
		pair := issue(t, *b, l, made, 0)
		put("pki/"+l.Name+".crt", pair.Certificate)
		put("pki/"+l.Name+".key", pair.PrivateKey)
		name := l.Name
		if other, ok := kubeadmNames[name]; ok {
			name = other
		}
		want[name] = parse(t, pair.Certificate).NotAfter
	}
	for name, l := range map[string]Leaf{
		"admin.conf": User("kubernetes-admin", "kubeadm:cluster-admins"), "super-admin.conf": User("kubernetes-super-admin",
			"system:masters"),
		"controller-manager.conf": User("system:kube-controller-manager"), "scheduler.conf": User("system:kube-scheduler"),
	} {
		pair := issue(t, *b, l, made, 0)
		text, err := Kubeconfig(KubeconfigSpec{"prod", "https://10.0.0.11:6443", b.CA.Certificate, l.CommonName, pair})
		if err != nil {
			t.Fatal(err)
		}
		put(name, text)
		want[name] = parse(t, pair.Certificate).NotAfter
	}
	if got := expirations(t, dir, binary.path); !maps.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("kubeadm says %v, want %v", got, want)
	}
}

// expirations returns those that kubeadm reports, by its names.
func expirations(t *testing.T, dir, kubeadm string) map[string]time.Time {
	t.Helper()
	command := exec.Command("unshare", "--mount", "sh", "-euc", expirationScript, "sh", dir, kubeadm)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kubeadm certs check-expiration: %v\n%s", err, output)
	}
	var document struct {
		Certificates []struct {
			Name           string    `json:"name"`
			ExpirationDate time.Time `json:"expirationDate"`
			Missing        bool      `json:"missing"`
		} `json:"certificates"`
		Authorities []struct {
			Name    string `json:"name"`
			Missing bool   `json:"missing"`
		} `json:"certificateAuthorities"`
	}
	if err := json.Unmarshal(output, &document); err != nil {
		t.Fatalf("kubeadm's answer cannot be read: %v\n%s", err, output)
	}
	got := map[string]time.Time{}
	for _, c := range document.Certificates {
		if c.Missing {
			t.Errorf("kubeadm misses %s", c.Name)
		}
		got[c.Name] = c.ExpirationDate
	}
	for _, a := range document.Authorities {
		if a.Missing {
			t.Errorf("kubeadm misses the authority %s", a.Name)
		}
	}
	return got
}
