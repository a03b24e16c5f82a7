package controlplane

import (
	"io/fs"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeadm's layout. It has three files more, which are not written because
// nothing on the machine uses them: front-proxy-ca.key and etcd/ca.key (only
// the bundle issues certificates), and super-admin.conf (the way in when RBAC
// is broken: it is issued on demand and never lies on a machine).
//
// Where kubeadm has one ca.crt for everything, a rotation needs three: whom to
// believe as a server, whom as a client, and which one signs. And etcd/ca.crt is
// the etcd member's: the two take the stages of a rotation one after the other,
// so that the API server's trust is a file of its own.
const (
	kubernetesDir = "/etc/kubernetes"
	pkiDir        = kubernetesDir + "/pki"
	etcdDir       = pkiDir + "/etcd"

	caCert       = pkiDir + "/ca.crt"
	clientCA     = pkiDir + "/client-ca.crt"
	signingCA    = pkiDir + "/ca-signing.crt"
	caKey        = pkiDir + "/ca.key"
	frontProxyCA = pkiDir + "/front-proxy-ca.crt"
	etcdClientCA = pkiDir + "/apiserver-etcd-ca.crt"
	etcdCA       = etcdDir + "/ca.crt" // a member's; earlier versions wrote it where there is none
	saKey        = pkiDir + "/sa.key"
	saPub        = pkiDir + "/sa.pub"

	apiServerCert        = pkiDir + "/apiserver.crt"
	kubeletClientCert    = pkiDir + "/apiserver-kubelet-client.crt"
	frontProxyClientCert = pkiDir + "/front-proxy-client.crt"
	etcdClientCert       = pkiDir + "/apiserver-etcd-client.crt"

	adminConf             = kubernetesDir + "/admin.conf"
	controllerManagerConf = kubernetesDir + "/controller-manager.conf"
	schedulerConf         = kubernetesDir + "/scheduler.conf"
)

// AdminGroup is kubeadm's group of administrators. It has rights only through
// the ClusterRoleBinding that every replica makes sure of.
const AdminGroup = "kubeadm:cluster-admins"

const (
	publicMode fs.FileMode = 0o644
	secretMode fs.FileMode = 0o600
)

// keyOf is where the private key of a certificate file lies.
func keyOf(certificate string) string { return strings.TrimSuffix(certificate, ".crt") + ".key" }

// certificate is a leaf certificate and its key in two files. Only owner reads the key.
type certificate struct {
	leaf  pki.Leaf
	path  string // of the certificate
	owner string
}

// kubeconfig is a client certificate inside a kubeconfig file.
type kubeconfig struct {
	leaf   pki.Leaf
	path   string
	owner  string
	server string
}

// certificates are the replica's leaf certificates. All are the API server's,
// which reloads them from these files.
func certificates(s Replica) []certificate {
	return []certificate{
		{leaf: pki.APIServer(s.names()), path: apiServerCert, owner: release.APIServer},
		{leaf: pki.APIServerKubeletClient(), path: kubeletClientCert, owner: release.APIServer},
		{leaf: pki.FrontProxyClient(), path: frontProxyClientCert, owner: release.APIServer},
		{leaf: pki.APIServerEtcdClient(), path: etcdClientCert, owner: release.APIServer},
	}
}

// kubeconfigs are the replica's kubeconfig files. Components use their own
// machine's API server, people use the endpoint.
func kubeconfigs(s Replica) []kubeconfig {
	all := []kubeconfig{
		{leaf: adminUser(), path: adminConf, owner: "root", server: s.EndpointURL()},
		{leaf: pki.User("system:kube-controller-manager"), path: controllerManagerConf, owner: release.ControllerManager, server: s.localURL()},
		{leaf: pki.User("system:kube-scheduler"), path: schedulerConf, owner: release.Scheduler, server: s.localURL()},
	}
	if s.NoAdminConf {
		return all[1:]
	}
	return all
}

// fixedFiles are the files whose content the bundle decides, or the replica's
// settings do.
func fixedFiles(s Replica) []host.File {
	public := func(path, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: publicMode, Owner: "root", Group: "root"}
	}
	secret := func(path, owner, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: secretMode, Owner: owner, Group: owner}
	}
	files := []host.File{
		public(caCert, s.Bundle.Roots(pki.Kubernetes)),
		public(clientCA, s.Bundle.Anchors(pki.Kubernetes)),
		public(frontProxyCA, s.Bundle.Anchors(pki.FrontProxy)),
		public(etcdClientCA, s.Bundle.Anchors(pki.Etcd)),
		public(saPub, s.Bundle.PublicKeys()),
		secret(saKey, release.APIServer, s.Bundle.ServiceAccount.PrivateKey),
	}
	if s.signs() {
		files = append(files,
			secret(caKey, release.ControllerManager, s.Bundle.CA.PrivateKey),
			public(signingCA, s.Bundle.Signing(pki.Kubernetes)))
	}
	if s.encrypts() {
		files = append(files, secret(encryptionConfig, release.APIServer, encryptionText(s.Bundle)))
	}
	return append(files, settingFiles(s)...)
}

// unwantedFiles are those that another bundle of this cluster, or other settings,
// may have put onto the machine: a key there, once it is held elsewhere, is a key
// too many.
func unwantedFiles(s Replica) []string {
	var paths []string
	if !s.signs() {
		paths = append(paths, caKey, signingCA)
	}
	if !s.encrypts() {
		paths = append(paths, encryptionConfig)
	}
	if s.NoAdminConf {
		paths = append(paths, adminConf)
	}
	return append(paths, unwantedSettings(s)...)
}

// signs reports whether controller-manager can sign what clients request
// (CertificateSigningRequest). As with kubeadm, it cannot where the authority's
// key is held elsewhere.
func (s Replica) signs() bool { return !s.Bundle.External(pki.Kubernetes) }

func directories() []host.Dir {
	return []host.Dir{
		{Path: kubernetesDir, Mode: 0o755},
		{Path: pkiDir, Mode: 0o755},
	}
}

// ServiceIPs are the addresses of the Service "kubernetes": the first one of
// each service range. A malformed range has none (ValidateCIDRs reports it).
func ServiceIPs(cidrs []string) []string {
	var out []string
	for _, cidr := range cidrs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, prefix.Masked().Addr().Next().String())
		}
	}
	return out
}
