package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// kubeadmConfig describes the machine of catalogue() to a version of kubeadm.
func kubeadmConfig(version string, algorithm Algorithm, dir string) string {
	return fmt.Sprintf(kubeadmForm, version, algorithm, dir)
}

const kubeadmForm = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.0.0.11, bindPort: 6443}
nodeRegistration: {name: cp1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%s
clusterName: prod
encryptionAlgorithm: %s
certificatesDir: %s
controlPlaneEndpoint: 10.0.0.100:6443
networking: {serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
apiServer: {certSANs: [api.example.com]}
`

// TestKubeadm compares the package with the real kubeadm, in both directions: a bundle of
// kubeadm's files is valid and its certificates pass Check, and each certificate issued here
// equals kubeadm's, field by field.
func TestKubeadm(t *testing.T) {
	binary := kubeadmBinary(t)
	for _, algorithm := range []Algorithm{ECDSAP256, ECDSAP384, RSA2048} {
		t.Run(string(algorithm), func(t *testing.T) {
			k := runKubeadm(t, binary, algorithm)
			made := time.Now()
			kubeadms := k.bundle(t, algorithm)
			if err := kubeadms.Validate(); err != nil {
				t.Fatalf("kubeadm's files are no bundle: %v", err)
			}
			own, err := Generate(Options{ClusterName: "prod", Algorithm: algorithm, Now: made})
			if err != nil {
				t.Fatal(err)
			}
			sameAuthorities(t, kubeadms, own)
			for _, l := range catalogue() {
				t.Run(l.Name, func(t *testing.T) {
					pair := KeyPair{Certificate: k.read(t, "pki/"+l.Name+".crt", 0o644), PrivateKey: k.read(t, "pki/"+l.Name+".key",
						0o600)}
					if wrong := kubeadms.Check(l, pair.Certificate, made); wrong != nil {
						t.Errorf("Check on kubeadm's certificate says %q", wrong)
					}
					samePair(t, pair, issue(t, *own, l, made, 0))
				})
			}
			k.compareKubeconfigs(t, kubeadms, own, made)
		})
	}
}

// compareKubeconfigs renders kubeadm's kubeconfigs with kubeadm's own keys: the
// texts must be equal.
func (k kubeadm) compareKubeconfigs(t *testing.T, kubeadms, own *Bundle, made time.Time) {
	const local, endpoint = "https://10.0.0.11:6443", "https://10.0.0.100:6443"
	for _, f := range []struct {
		file, server string
		leaf         Leaf
	}{
		{"admin", endpoint, User("kubernetes-admin", "kubeadm:cluster-admins")},
		{"super-admin", endpoint, User("kubernetes-super-admin", "system:masters")},
		{"controller-manager", local, User("system:kube-controller-manager")},
		{"scheduler", local, User("system:kube-scheduler")},
	} {
		t.Run(f.file, func(t *testing.T) {
			text := k.read(t, "conf/"+f.file+".conf", 0o600)
			info, err := ParseKubeconfig(text)
			if err != nil {
				t.Fatal(err)
			}
			if info.Server != f.server || info.User != f.leaf.CommonName || info.Cluster != "prod" ||
				info.CA != kubeadms.CA.Certificate {
				t.Errorf("kubeadm's says %s, %s, %s", info.Server, info.User, info.Cluster)
			}
			if wrong := kubeadms.Check(f.leaf, info.ClientCertificate, made); wrong != nil {
				t.Errorf("Check on kubeadm's certificate says %q", wrong)
			}
			client := KeyPair{Certificate: info.ClientCertificate, PrivateKey: clientKey(t, text)}
			samePair(t, client, issue(t, *own, f.leaf, made, 0))
			rendered, err := Kubeconfig(KubeconfigSpec{"prod", f.server, kubeadms.CA.Certificate, f.leaf.CommonName, client})
			if err != nil {
				t.Fatal(err)
			}
			if rendered != text {
				t.Error("the same kubeconfig is another text")
			}
		})
	}
}

func sameAuthorities(t *testing.T, kubeadms, own *Bundle) {
	t.Helper()
	samePair(t, kubeadms.CA, own.CA)
	samePair(t, kubeadms.EtcdCA, own.EtcdCA)
	samePair(t, kubeadms.FrontProxyCA, own.FrontProxyCA)
	if a, b := pemType(kubeadms.ServiceAccount.PublicKey), pemType(own.ServiceAccount.PublicKey); a != b {
		t.Errorf("sa.pub: kubeadm writes %s, we write %s", a, b)
	}
	if a, b := pemType(kubeadms.ServiceAccount.PrivateKey), pemType(own.ServiceAccount.PrivateKey); a != b {
		t.Errorf("sa.key: kubeadm writes %s, we write %s", a, b)
	}
}

// samePair compares everything that does not have to differ. Lifetimes are rounded, because
// kubeadm's leaves begin when their authority begins.
func samePair(t *testing.T, kubeadms, own KeyPair) {
	t.Helper()
	want, got := describe(t, kubeadms), describe(t, own)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("kubeadm makes %s, we make %s", want[i], got[i])
		}
	}
	for _, pair := range []KeyPair{kubeadms, own} {
		if c := parse(t, pair.Certificate); time.Since(c.NotBefore.Add(5*time.Minute)).Abs() > time.Minute {
			t.Errorf("not before %s is not about five minutes ago", c.NotBefore)
		}
	}
}

func describe(t *testing.T, pair KeyPair) []string {
	t.Helper()
	c := parse(t, pair.Certificate)
	names := append(slices.Sorted(slices.Values(c.DNSNames)), addressTexts(c.IPAddresses)...)
	return []string{
		"subject " + c.Subject.String(),
		"issuer " + c.Issuer.String(),
		fmt.Sprint("names ", names),
		fmt.Sprint("key usage ", c.KeyUsage),
		fmt.Sprint("extended key usage ", c.ExtKeyUsage, c.UnknownExtKeyUsage),
		fmt.Sprint("CA ", c.BasicConstraintsValid, c.IsCA, c.MaxPathLen),
		fmt.Sprint("lifetime ", c.NotAfter.Sub(c.NotBefore).Round(time.Minute)),
		fmt.Sprint("signature ", c.SignatureAlgorithm),
		"key " + keyKind(c),
		"private key " + pemType(pair.PrivateKey),
		fmt.Sprint("extensions ", extensions(c)),
	}
}

func addressTexts(addresses []net.IP) []string {
	var texts []string
	for _, address := range addresses {
		texts = append(texts, address.String())
	}
	return slices.Sorted(slices.Values(texts))
}

func keyKind(c *x509.Certificate) string {
	if key, ok := c.PublicKey.(*ecdsa.PublicKey); ok {
		return key.Curve.Params().Name
	}
	return c.PublicKeyAlgorithm.String()
}

// extensions returns a certificate's extensions with their criticality, without a leaf's
// subject key identifier: see the package's documentation.
func extensions(c *x509.Certificate) []string {
	var list []string
	for _, e := range c.Extensions {
		if id := e.Id.String(); c.IsCA || id != "2.5.29.14" {
			list = append(list, fmt.Sprintf("%s critical=%t", id, e.Critical))
		}
	}
	return slices.Sorted(slices.Values(list))
}

func pemType(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "no PEM"
	}
	return block.Type
}

// kubeadm is a directory with kubeadm's files.
type kubeadm struct{ dir string }

func runKubeadm(t *testing.T, binary kubeadmProgram, algorithm Algorithm) kubeadm {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeadm.yaml")
	text := kubeadmConfig(binary.version, algorithm, filepath.Join(dir, "pki"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "phase", "certs", "all", "--config", config},
		{"init", "phase", "kubeconfig", "all", "--config", config, "--kubeconfig-dir", filepath.Join(dir, "conf")},
	} {
		if output, err := exec.Command(binary.path, args...).CombinedOutput(); err != nil {
			t.Fatalf("kubeadm %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	return kubeadm{dir}
}

func (k kubeadm) bundle(t *testing.T, algorithm Algorithm) *Bundle {
	t.Helper()
	authority := func(name string) KeyPair {
		return KeyPair{Certificate: k.read(t, "pki/"+name+".crt", 0o644), PrivateKey: k.read(t, "pki/"+name+".key", 0o600)}
	}
	return &Bundle{
		ClusterID:      NewClusterID(),
		ClusterName:    "prod",
		Algorithm:      algorithm,
		CA:             authority("ca"),
		EtcdCA:         authority("etcd/ca"),
		FrontProxyCA:   authority("front-proxy-ca"),
		ServiceAccount: KeyPair{PublicKey: k.read(t, "pki/sa.pub", 0o600), PrivateKey: k.read(t, "pki/sa.key", 0o600)},
	}
}

// read also checks the mode, which the code that writes our files must match.
func (k kubeadm) read(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(k.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != mode {
		t.Errorf("%s has mode %o, expected %o", name, info.Mode().Perm(), mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func clientKey(t *testing.T, text string) string {
	t.Helper()
	_, data, _ := strings.Cut(text, "client-key-data: ")
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data))
	if err != nil {
		t.Fatal(err)
	}
	return string(key)
}

// kubeadmProgram is a built kubeadm.
type kubeadmProgram struct{ path, version string }

// kubeadmBinary returns the kubeadm of the default release among the lab's components. The
// catalogue is the same as in that release; another one may differ.
func kubeadmBinary(t *testing.T) kubeadmProgram {
	t.Helper()
	version, err := build.Version("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cache.Dir()
	if err != nil {
		testrun.Missing(t, "no cache directory: ", err)
	}
	path := filepath.Join(dir, "components", "kubernetes-v"+version, "kubeadm")
	if _, err := os.Stat(path); err != nil {
		testrun.Missing(t, "kubeadm is not built: ", err)
	}
	return kubeadmProgram{path, version}
}
