package acceptance

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// ownVariables provide keys that are stored neither in the state nor in the plan as such.
const ownVariables = `
variable "kubernetes_key" {
  type      = string
  sensitive = true
  ephemeral = true
}
variable "service_account_key" {
  type      = string
  sensitive = true
  ephemeral = true
}
variable "etcd_key" {
  type      = string
  sensitive = true
}
`

// ownPKI is a bundle of user-supplied authorities: the certificates come from files, each with
// its issuers.
const ownPKI = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  ca = {
    certificate            = file("${path.module}/kubernetes.pem")
    private_key_wo         = var.kubernetes_key
    private_key_wo_version = %d
  }
  etcd_ca = {
    certificate = file("${path.module}/etcd.pem")
    private_key = var.etcd_key
  }
  service_account = {
    private_key_wo         = var.service_account_key
    private_key_wo_version = 1
  }
  rotation = { kubernetes = %d }
}
`

// own is a control plane below a root of the user's.
type own struct {
	w                *workspace.Workspace
	names            []string
	root             authority
	kubernetes, etcd authority
	account          *ecdsa.PrivateKey
}

// TestBringYourOwn creates a control plane from intermediate authorities of one root and from a
// supplied service-account key. All components verify each other, and no component accepts a
// certificate of another authority of the same root. Changing the Kubernetes CA requires a
// rotation.
func TestBringYourOwn(t *testing.T) {
	names := []string{"cp1", "cp2"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	root := newRoot(t, "Example Root")
	o := &own{
		w: w, names: names, root: root, account: newKey(t),
		kubernetes: root.sign(t, "Example Kubernetes", unlimited),
		etcd:       root.sign(t, "Example etcd", 0),
	}
	extend(t, w, ownVariables)
	o.set(t, 1, 0)
	apply(t, w)
	t.Run("verified", o.verified)
	t.Run("others of the same root", o.siblings)
	t.Run("another authority", o.replaced)
	if t.Failed() {
		t.FailNow()
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// set writes the configuration. The keys come from the environment, as in a pipeline.
func (o *own) set(t *testing.T, version, generation int) {
	t.Helper()
	write(t, filepath.Join(o.w.Dir, "kubernetes.pem"), o.kubernetes.chain())
	write(t, filepath.Join(o.w.Dir, "etcd.pem"), o.etcd.chain())
	o.w.Env = []string{
		"TF_VAR_kubernetes_key=" + o.kubernetes.privateKey(t),
		"TF_VAR_etcd_key=" + o.etcd.privateKey(t),
		"TF_VAR_service_account_key=" + keyPEM(t, o.account),
	}
	override(t, o.w, fmt.Sprintf(ownPKI, version, generation))
}

// verified checks that servers present a chain up to the root, so that clients that trust only
// the root accept them. The balancers are such clients, and have every replica in rotation.
func (o *own) verified(t *testing.T) {
	for server, authority := range o.presentedAuthorities() {
		chain := shown(t, server)
		intermediates := x509.NewCertPool()
		for _, c := range chain[1:] {
			intermediates.AddCert(c)
		}
		if _, err := chain[0].Verify(x509.VerifyOptions{
			Roots:         poolOf(o.root.chain()),
			Intermediates: intermediates,
		}); err != nil {
			t.Errorf("%s does not verify up to the root: %v", server, err)
		}
		if chain[0].CheckSignatureFrom(authority.certificate) != nil {
			t.Errorf("%s shows a certificate of %q, want one of %q", server, chain[0].Issuer.CommonName,
				authority.certificate.Subject.CommonName)
		}
	}
	awaitRotation(t, o.names...)
	config := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/haproxy/kube/*.cfg")
	if !strings.Contains(config, "verify required") {
		t.Errorf("the balancer verifies no replica:\n%s", config)
	}
	useAPI(t, o.w)
	admin := credentialsOf(t, outputOf(t, o.w, "kubeconfig"))
	admin.expectControllers(t, "own", textOf(valuesOf(t, o.w, "kube_pki_bundle.this"), "ca_certificate"))
	token := admin.tokenOf(t, "own")
	admin.with(token).expectKnown(t, "a token", "system:serviceaccount:own:default", servers(o.names...)...)
	if !signedBy(t, token, &o.account.PublicKey) {
		t.Error("a ServiceAccount's token is not signed by the key that was given")
	}
}

// presentedAuthorities returns the servers that present certificates, by address.
func (o *own) presentedAuthorities() map[string]authority {
	all := map[string]authority{vip + ":6443": o.kubernetes}
	for _, name := range o.names {
		all[address(name)+":6443"] = o.kubernetes
		all[address(name)+":2379"] = o.etcd
		all[address(name)+":2380"] = o.etcd
	}
	return all
}

// shown returns the certificates that a server presents to any client. The client itself is not
// accepted here.
func shown(t *testing.T, server string) []*x509.Certificate {
	t.Helper()
	var chain []*x509.Certificate
	dialer := &tls.Dialer{Config: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // the certificates are verified afterwards
		VerifyConnection:   func(state tls.ConnectionState) error { chain = state.PeerCertificates; return nil },
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", server)
	if err == nil {
		err = conn.Close()
	}
	if len(chain) == 0 {
		t.Fatalf("%s shows no certificate: %v", server, err)
	}
	return chain
}

// signedBy verifies an ES256 token.
func signedBy(t *testing.T, token string, key *ecdsa.PublicKey) bool {
	t.Helper()
	end := strings.LastIndex(token, ".")
	signature, err := base64.RawURLEncoding.DecodeString(token[end+1:])
	if err != nil || len(signature) != 64 {
		t.Fatalf("the token has no signature of 64 bytes: %v", err)
	}
	digest := sha256.Sum256([]byte(token[:end]))
	return ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
}

// siblings checks that certificates of the company's other authorities are rejected.
func (o *own) siblings(t *testing.T) {
	sibling := o.root.sign(t, "Example Office", 0)
	admin := credentialsOf(t, outputOf(t, o.w, "kubeconfig"))
	for what, certificate := range map[string]tls.Certificate{
		"another authority of the root": sibling.client(t, administrator, "system:masters"),
		"the root itself":               o.root.client(t, administrator, "system:masters"),
		"the etcd authority":            o.etcd.client(t, administrator, "system:masters"),
	} {
		unauthorized := credentials{tls: admin.tls.Clone()}
		unauthorized.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificate, nil
		}
		unauthorized.expectRefused(t, "a client certificate of "+what, servers(o.names...)...)
	}
	member := credentials{tls: etcdCredentials(t, "cp1")}
	for what, certificate := range map[string]tls.Certificate{
		"another authority of the root": sibling.client(t, "root"),
		"the Kubernetes authority":      o.kubernetes.client(t, "root"),
	} {
		unauthorized := credentials{tls: member.tls.Clone()}
		unauthorized.tls.Certificates = nil
		unauthorized.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificate, nil
		}
		for _, url := range members(o.names...) {
			if err := unauthorized.askMember(t, url); err == nil || !strings.Contains(err.Error(), "remote error: tls") {
				t.Errorf("%s was to refuse a client certificate of %s: %v", url, what, err)
			}
		}
	}
}

// replaced checks that another Kubernetes CA is rejected without a rotation, and installed by
// one.
func (o *own) replaced(t *testing.T) {
	before := processes(t, o.names...)
	first := credentialsOf(t, outputOf(t, o.w, "kubeconfig"))
	old := o.kubernetes
	o.kubernetes = newRoot(t, "Other Root").sign(t, "Other Kubernetes", unlimited)
	o.set(t, 2, 0)
	_, _, err := o.w.Plan(t.Context())
	if err == nil {
		t.Fatal("another authority without a rotation was not refused")
	}
	expectContains(t, unfolded(err.Error()), "raise rotation.kubernetes from 0 to 1")
	expectRestarted(t, before, nil)
	for generation := 1; generation <= 3; generation++ {
		o.set(t, 2, generation)
		apply(t, o.w)
	}
	present := credentialsOf(t, outputOf(t, o.w, "kubeconfig"))
	everywhere := append(servers(o.names...), endpointURL)
	present.expectKnown(t, "with the other authority", administrator, everywhere...)
	first.trusting(present).expectRefused(t, "a client of the authority that was replaced", everywhere...)
	for server, authority := range o.presentedAuthorities() {
		if leaf := shown(t, server)[0]; leaf.CheckSignatureFrom(authority.certificate) != nil {
			t.Errorf("%s still shows a certificate of %q", server, leaf.Issuer.CommonName)
		}
	}
	retired := credentials{tls: present.tls.Clone()}
	pair := old.client(t, administrator, "system:masters")
	retired.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	retired.expectRefused(t, "a certificate that the replaced authority issues now", everywhere...)
	present.must(t, endpointURL, http.MethodGet, "/api/v1/namespaces", nil, nil)
}
