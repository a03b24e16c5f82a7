package kubelet

import (
	"bytes"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Credentials are how the kubelet of a machine knows its cluster, and what it presents to it, as kubeadm sets them up:
// kubelet.conf embeds the CA, and names a certificate that the kubelet renews before it expires. A rotation of the CA
// reaches neither. With the last stage, the API would not know the kubelet any more, nor the kubelet the API. A change
// of the port of the API server on the machine, which kubelet.conf names too, does not reach it either.
type Credentials struct {
	Authorities []string            // the certificates (DER) that it trusts
	Client      []*x509.Certificate // the chain that it presents
	Node        string              // the name of the node in that
	Begun       bool                // a change of them was cut off before the kubelet ran with it
	Server      string              // the URL of the API server that it uses; "" if there is none, or more than one
}

const (
	pkiDir = "/var/lib/kubelet/pki"
	// clientForm is the name of a certificate of the kubelet, by the time of its issue
	// (k8s.io/client-go/util/certificate/certificate_store.go).
	clientForm = "kubelet-client-2006-01-02-15-04-05.pem"
	nodeUser   = "system:node:"
	nodeGroup  = "system:nodes"
	// renewalMark is there while a change is under way.
	renewalMark = "/etc/kubernetes/kubelet.renewal"
)

// nodeForm is the name of a node (DNS-1123 subdomain).
var nodeForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

//go:embed credentials.sh
var credentialsReport host.Script

//go:embed credentials_change.sh
var credentialsChange host.Script

// CredentialsReport returns a script whose output ReadCredentials parses.
func CredentialsReport() host.Script { return credentialsReport.WithoutComments() }

// ReadCredentials parses the output of CredentialsReport; nil if the machine has no kubelet of a cluster, or one that
// kubeadm has not set up.
func ReadCredentials(output string) *Credentials {
	var c *Credentials
	server := ""
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) == 4 && fields[0] == "credentials" && c == nil:
			if c = readCredentials(fields[1:]); c == nil {
				return nil
			}
		case len(fields) == 2 && fields[0] == "credentials-server" && server == "":
			server = decode(fields[1])
		}
	}
	if c != nil {
		c.Server = server
	}
	return c
}

// readCredentials parses the fields of a line: whether a change is over, the authorities, and the certificates.
func readCredentials(fields []string) *Credentials {
	authorities, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return nil
	}
	certificates, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return nil
	}
	c := credentialsOf(string(authorities), string(certificates))
	if c != nil {
		c.Begun = fields[0] == "begun"
	}
	return c
}

func credentialsOf(authorities, certificates string) *Credentials {
	c := &Credentials{Authorities: pki.CertificatesIn(authorities)}
	for _, der := range pki.CertificatesIn(certificates) {
		certificate, err := x509.ParseCertificate([]byte(der))
		if err != nil {
			return nil
		}
		c.Client = append(c.Client, certificate)
	}
	if len(c.Authorities) == 0 || len(c.Client) == 0 {
		return nil
	}
	subject := c.Client[0].Subject
	node, ok := strings.CutPrefix(subject.CommonName, nodeUser)
	if !ok || !nodeForm.MatchString(node) || !slices.Equal(subject.Organization, []string{nodeGroup}) {
		return nil
	}
	c.Node = node
	return c
}

// Problems lists how the credentials differ from what the stage of the cluster's rotation requires. A kubelet of
// another cluster has none.
func (c *Credentials) Problems(b *pki.Bundle) []string {
	if !c.belongsTo(b) {
		return nil
	}
	var problems []string
	if c.distrusts(b) {
		problems = append(problems, "kubelet: its kubeconfig does not trust the Kubernetes CAs of this stage of the rotation")
	}
	if c.outdated(b) {
		problems = append(problems, "kubelet: its certificate is not of the Kubernetes CA that issues certificates now")
	}
	if c.Begun {
		problems = append(problems, "kubelet: it may not run with its new credentials, because a change of them was cut off")
	}
	return problems
}

// ServerProblem describes how the API server that the kubelet uses differs from that of its machine, at the URL own; ""
// if it does not. kubeadm lets the kubelet use the address of its machine since 1.33, and a change of the port does not
// reach it. Another address is one that somebody has chosen.
func (c *Credentials) ServerProblem(b *pki.Bundle, own string) string {
	if !c.belongsTo(b) {
		return ""
	}
	have, err := url.Parse(c.Server)
	want, ownErr := url.Parse(own)
	if err != nil || ownErr != nil || have.Scheme != want.Scheme {
		return ""
	}
	at, err := netip.ParseAddr(have.Hostname())
	to, ownErr := netip.ParseAddr(want.Hostname())
	if err != nil || ownErr != nil || at.Unmap() != to.Unmap() || have.Port() == want.Port() {
		return ""
	}
	return "kubelet: its kubeconfig names the API server at " + have.Scheme + "://" + have.Host + ", wanted " + own
}

// belongsTo reports whether the kubelet is one of the cluster: it trusts, and presents a certificate of, a CA that the
// cluster has or had.
func (c *Credentials) belongsTo(b *pki.Bundle) bool {
	if c == nil {
		return false
	}
	known := b.Known(pki.Kubernetes)
	return overlap(c.Authorities, pki.CertificatesIn(known)) && c.signedBy(known, b)
}

// NodeIn returns the name of the kubelet's node; "" if the kubelet is none of the cluster.
func (c *Credentials) NodeIn(b *pki.Bundle) string {
	if !c.belongsTo(b) {
		return ""
	}
	return c.Node
}

// signedBy reports whether one of the CAs (PEM) has signed the certificate of the kubelet, or the intermediate CA after
// it in the file, unless that is a CA of the cluster, which another one has cross-signed. Times do not matter: a
// kubelet gets a certificate that begins before a new CA.
func (c *Credentials) signedBy(authorities string, b *pki.Bundle) bool {
	own := certificatesOf(b.Known(pki.Kubernetes))
	signers := certificatesOf(authorities)
	by := func(signed *x509.Certificate) func(*x509.Certificate) bool {
		return func(signer *x509.Certificate) bool { return signed.CheckSignatureFrom(signer) == nil }
	}
	if slices.ContainsFunc(signers, by(c.Client[0])) {
		return true
	}
	for _, intermediate := range c.Client[1:] {
		key := intermediate.RawSubjectPublicKeyInfo
		cross := func(a *x509.Certificate) bool { return bytes.Equal(a.RawSubjectPublicKeyInfo, key) }
		if by(c.Client[0])(intermediate) && !slices.ContainsFunc(own, cross) &&
			slices.ContainsFunc(signers, by(intermediate)) {
			return true
		}
	}
	return false
}

// certificatesOf parses the certificates of a PEM text; those that cannot be parsed are left out.
func certificatesOf(text string) (all []*x509.Certificate) {
	for _, der := range pki.CertificatesIn(text) {
		if certificate, err := x509.ParseCertificate([]byte(der)); err == nil {
			all = append(all, certificate)
		}
	}
	return all
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(each string) bool { return slices.Contains(b, each) })
}

// everTrusted returns the CAs (PEM) that the kubelet may have got from the cluster: those that it has or had, and those
// whose introduction was taken back.
func everTrusted(b *pki.Bundle) string { return b.Known(pki.Kubernetes) + b.Withdrawn(pki.Kubernetes) }

// distrusts reports whether the kubelet lacks a CA of the stage, or trusts one that the stage has dropped.
func (c *Credentials) distrusts(b *pki.Bundle) bool {
	trusted := pki.CertificatesIn(b.Anchors(pki.Kubernetes))
	lacks := func(der string) bool { return !slices.Contains(c.Authorities, der) }
	dropped := slices.DeleteFunc(pki.CertificatesIn(everTrusted(b)), func(der string) bool {
		return slices.Contains(trusted, der)
	})
	return slices.ContainsFunc(trusted, lacks) || overlap(c.Authorities, dropped)
}

// outdated reports whether the certificate must be issued anew. If the key of the CA is held elsewhere, it cannot be.
func (c *Credentials) outdated(b *pki.Bundle) bool {
	return !b.External(pki.Kubernetes) && !c.signedBy(b.Signing(pki.Kubernetes), b)
}

// wanted returns what the kubelet should trust (PEM): the cluster's CAs, and those that somebody else has added.
func (c *Credentials) wanted(b *pki.Bundle) string {
	text := b.Anchors(pki.Kubernetes) // the kubelet needs no issuers of these
	known := pki.CertificatesIn(text + everTrusted(b))
	for _, der := range c.Authorities {
		if !slices.Contains(known, der) {
			text += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
		}
	}
	return text
}

// Renewed returns a script that ends a change, when the kubelet runs with it.
func Renewed() host.Script {
	return "rm -f " + renewalMark + "\n" + host.Flush(path.Dir(renewalMark))
}

// Change returns the change that gives the kubelet what Problems and ServerProblem miss, and restarts it if it runs.
// Containers keep running. Renewed ends it.
func (c *Credentials) Change(b *pki.Bundle, own string, now time.Time) (host.Change, error) {
	vars := map[string]string{
		"authorities": base64.StdEncoding.EncodeToString([]byte(c.wanted(b))), "certificate": "", "server": "",
	}
	if c.ServerProblem(b, own) != "" {
		vars["server"] = own
	}
	change := host.Change{Script: host.FlushFunction() + credentialsChange.WithoutComments(), Vars: vars}
	if c.outdated(b) {
		pair, err := b.Issue(pki.User(nodeUser+c.Node, nodeGroup), now, 0)
		if err != nil {
			return host.Change{}, err
		}
		file := path.Join(pkiDir, now.UTC().Format(clientForm))
		change.Files = []host.File{{Path: file, Mode: 0o600, Content: []byte(pair.Certificate + pair.PrivateKey)}}
		vars["certificate"] = file
	}
	return change, nil
}
