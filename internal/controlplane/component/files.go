package component

import (
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// The layout is kubeadm's. Three of its files are not written because nothing on the machine
// uses them: front-proxy-ca.key and etcd/ca.key (only the bundle issues certificates), and
// super-admin.conf (the emergency access when RBAC is broken; it is issued on demand and never
// stored on a machine).
//
// kubeadm has one ca.crt for everything. A rotation needs three files: the CAs trusted for
// servers, the CAs trusted for clients, and the signing CA. etcd/ca.crt belongs to the etcd
// member. The member and the API server go through the stages of a rotation one after the
// other, so the API server's etcd trust is a separate file.
const (
	KubernetesDir = "/etc/kubernetes"
	PKIDir        = KubernetesDir + "/pki"
	EtcdDir       = PKIDir + "/etcd"

	CACert       = PKIDir + "/ca.crt"
	ClientCA     = PKIDir + "/client-ca.crt"
	SigningCA    = PKIDir + "/ca-signing.crt"
	CAKey        = PKIDir + "/ca.key"
	FrontProxyCA = PKIDir + "/front-proxy-ca.crt"
	EtcdClientCA = PKIDir + "/apiserver-etcd-ca.crt"
	EtcdCA       = EtcdDir + "/ca.crt" // belongs to a member; earlier versions also wrote it without one
	SAKey        = PKIDir + "/sa.key"
	SAPub        = PKIDir + "/sa.pub"

	APIServerCert        = PKIDir + "/apiserver.crt"
	KubeletClientCert    = PKIDir + "/apiserver-kubelet-client.crt"
	FrontProxyClientCert = PKIDir + "/front-proxy-client.crt"
	EtcdClientCert       = PKIDir + "/apiserver-etcd-client.crt"

	AdminConf             = KubernetesDir + "/admin.conf"
	ControllerManagerConf = KubernetesDir + "/controller-manager.conf"
	SchedulerConf         = KubernetesDir + "/scheduler.conf"
	LeaseConf             = KubernetesDir + "/kube-vip-endpoint.conf" // only with Replica.EndpointLease
)

// AdminGroup is kubeadm's group of administrators. Its only rights come from the
// ClusterRoleBinding that every replica ensures.
const AdminGroup = "kubeadm:cluster-admins"

// Modes of files that are readable by everyone, and by their owner only.
const (
	PublicMode fs.FileMode = 0o644
	SecretMode fs.FileMode = 0o600
)

// KeyPath returns the path of the private key of a certificate file.
func KeyPath(certificate string) string { return strings.TrimSuffix(certificate, ".crt") + ".key" }

// Certificate is a leaf certificate and its key in two files. Only Owner can read the key.
type Certificate struct {
	Leaf  pki.Leaf
	Path  string // path of the certificate
	Owner string
}

// Kubeconfig is a client certificate inside a kubeconfig file.
type Kubeconfig struct {
	Leaf   pki.Leaf
	Path   string
	Owner  string
	Server string
}

// Certificates returns the replica's leaf certificates. Those of the API server are reloaded from
// these files.
func Certificates(s Replica) []Certificate {
	all := []Certificate{
		{Leaf: pki.APIServer(s.CertificateNames()), Path: APIServerCert, Owner: s.owner(release.APIServer)},
		{Leaf: pki.APIServerKubeletClient(), Path: KubeletClientCert, Owner: s.owner(release.APIServer)},
		{Leaf: pki.FrontProxyClient(), Path: FrontProxyClientCert, Owner: s.owner(release.APIServer)},
		{Leaf: pki.APIServerEtcdClient(), Path: EtcdClientCert, Owner: s.owner(release.APIServer)},
	}
	if s.hasKonnectivity() {
		all = append(all, konnectivityCertificate(s))
	}
	return all
}

// Kubeconfigs returns the replica's kubeconfig files. Components connect to the API server of
// their own machine, people connect to the endpoint.
func Kubeconfigs(s Replica) []Kubeconfig {
	all := []Kubeconfig{
		{Leaf: Admin(), Path: AdminConf, Owner: "root", Server: s.EndpointURL()},
		{
			Leaf: pki.User("system:kube-controller-manager"), Path: ControllerManagerConf,
			Owner: s.owner(release.ControllerManager), Server: s.LocalURL(),
		},
		{
			Leaf: pki.User("system:kube-scheduler"), Path: SchedulerConf, Owner: s.owner(release.Scheduler),
			Server: s.LocalURL(),
		},
	}
	if s.hasKonnectivity() {
		all = append(all, Kubeconfig{
			Leaf: pki.User(KonnectivityUser), Path: KonnectivityConf, Owner: KonnectivityServer, Server: s.LocalURL(),
		})
	}
	if s.EndpointLease != "" {
		all = append(all, Kubeconfig{
			Leaf: LeaseHolder(s.Name, s.LeaseHolders), Path: LeaseConf, Owner: "root", Server: s.LocalURL(),
		})
	}
	if s.NoAdminConf {
		return all[1:]
	}
	return all
}

// Files returns the files whose content depends on the bundle or on the replica's settings.
func Files(s Replica) []host.File {
	public := func(path, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: PublicMode, Owner: "root", Group: "root"}
	}
	secret := func(path, owner, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: SecretMode, Owner: owner, Group: owner}
	}
	files := []host.File{
		public(CACert, s.Bundle.Roots(pki.Kubernetes)),
		public(ClientCA, s.Bundle.Anchors(pki.Kubernetes)),
		public(FrontProxyCA, s.Bundle.Anchors(pki.FrontProxy)),
		public(EtcdClientCA, s.Bundle.Anchors(pki.Etcd)),
		public(SAPub, s.Bundle.PublicKeys()),
		secret(SAKey, s.owner(release.APIServer), s.Bundle.ServiceAccount.PrivateKey),
	}
	if s.signs() {
		files = append(files,
			secret(CAKey, s.owner(release.ControllerManager), s.Bundle.CA.PrivateKey),
			public(SigningCA, s.Bundle.Signing(pki.Kubernetes)))
	}
	if s.encrypts() {
		files = append(files, secret(EncryptionConfigPath, s.owner(release.APIServer), encryptionText(s.Bundle)))
	}
	return append(files, SettingFiles(s)...)
}

// UnwantedFiles returns the files that an earlier bundle of this cluster, or earlier settings,
// may have left on the machine. A key that is now external must not stay there.
func UnwantedFiles(s Replica) []string {
	var paths []string
	if !s.signs() {
		paths = append(paths, CAKey, SigningCA)
	}
	if !s.encrypts() {
		paths = append(paths, EncryptionConfigPath)
	}
	if s.NoAdminConf {
		paths = append(paths, AdminConf)
	}
	if !s.hasKonnectivity() {
		paths = append(paths, KonnectivityFiles()...)
	}
	if s.EndpointLease == "" {
		paths = append(paths, LeaseConf)
	}
	return append(paths, unwantedSettings(s)...)
}

// signs reports whether controller-manager can sign CertificateSigningRequests. As with
// kubeadm, it cannot if the CA's key is external.
func (s Replica) signs() bool { return !s.Bundle.External(pki.Kubernetes) }

// Directories returns the directories of the files.
func Directories() []host.Dir {
	return []host.Dir{
		{Path: KubernetesDir, Mode: 0o755},
		{Path: PKIDir, Mode: 0o755},
	}
}

// ServiceIPs returns the addresses of the Service "kubernetes": the first address of each
// service range. A malformed range is skipped (ValidateCIDRs reports it).
func ServiceIPs(cidrs []string) []string {
	var out []string
	for _, cidr := range cidrs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, prefix.Masked().Addr().Next().String())
		}
	}
	return out
}

// Files returns the two files of the pair. The key is written first, so that a reader who
// watches the certificate finds its key.
func (c Certificate) Files(pair pki.KeyPair) []host.File {
	return []host.File{
		{Path: KeyPath(c.Path), Content: []byte(pair.PrivateKey), Mode: SecretMode, Owner: c.Owner, Group: c.Owner},
		{Path: c.Path, Content: []byte(pair.Certificate), Mode: PublicMode, Owner: "root", Group: "root"},
	}
}

// Issue issues the client certificate and renders the kubeconfig.
func (k Kubeconfig) Issue(s Replica, now time.Time) (host.File, error) {
	pair, err := s.Bundle.Issue(k.Leaf, now, 0)
	if err != nil {
		return host.File{}, err
	}
	text, err := pki.Kubeconfig(k.spec(s, pair))
	if err != nil {
		return host.File{}, err
	}
	return host.File{Path: k.Path, Content: []byte(text), Mode: SecretMode, Owner: k.Owner, Group: k.Owner}, nil
}

func (k Kubeconfig) spec(s Replica, pair pki.KeyPair) pki.KubeconfigSpec {
	return pki.KubeconfigSpec{
		Cluster: s.Bundle.ClusterName,
		Server:  k.Server,
		CA:      s.Bundle.Roots(pki.Kubernetes),
		User:    k.Leaf.CommonName,
		Client:  pair,
	}
}
