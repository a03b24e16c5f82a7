package controlplane

import (
	"io/fs"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeadm's layout. It has three files more, which are not written because
// nothing on the machine uses them: front-proxy-ca.key and etcd/ca.key (only
// the bundle issues certificates), and super-admin.conf (the way in when RBAC
// is broken: it is issued on demand and never lies on a machine).
const (
	kubernetesDir = "/etc/kubernetes"
	pkiDir        = kubernetesDir + "/pki"
	etcdDir       = pkiDir + "/etcd"

	caCert       = pkiDir + "/ca.crt"
	caKey        = pkiDir + "/ca.key"
	frontProxyCA = pkiDir + "/front-proxy-ca.crt"
	etcdCA       = etcdDir + "/ca.crt"
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
func certificates(s Spec) []certificate {
	serving := pki.APIServer(pki.APIServerNames{
		NodeName:      s.Name,
		ClusterDomain: s.domain(),
		ServiceIPs:    serviceIPs(s.ServiceCIDRs),
		Advertise:     s.Host.Address(),
		Endpoint:      s.EndpointHost,
		Extra:         s.ExtraSANs,
	})
	return []certificate{
		{leaf: serving, path: apiServerCert, owner: APIServer},
		{leaf: pki.APIServerKubeletClient(), path: kubeletClientCert, owner: APIServer},
		{leaf: pki.FrontProxyClient(), path: frontProxyClientCert, owner: APIServer},
		{leaf: pki.APIServerEtcdClient(), path: etcdClientCert, owner: APIServer},
	}
}

// kubeconfigs are the replica's kubeconfig files. Components use their own
// machine's API server, people use the endpoint.
func kubeconfigs(s Spec) []kubeconfig {
	return []kubeconfig{
		{leaf: pki.User("kubernetes-admin", AdminGroup), path: adminConf, owner: "root", server: s.EndpointURL()},
		{leaf: pki.User("system:kube-controller-manager"), path: controllerManagerConf, owner: ControllerManager, server: s.localURL()},
		{leaf: pki.User("system:kube-scheduler"), path: schedulerConf, owner: Scheduler, server: s.localURL()},
	}
}

// fixedFiles are the files whose content the bundle alone decides.
func fixedFiles(s Spec) []host.File {
	public := func(path, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: publicMode, Owner: "root", Group: "root"}
	}
	secret := func(path, owner, content string) host.File {
		return host.File{Path: path, Content: []byte(content), Mode: secretMode, Owner: owner, Group: owner}
	}
	return []host.File{
		public(caCert, s.Bundle.Roots(pki.Kubernetes)),
		public(frontProxyCA, s.Bundle.Anchors(pki.FrontProxy)),
		public(etcdCA, s.Bundle.Anchors(pki.Etcd)),
		public(saPub, s.Bundle.PublicKeys()),
		secret(saKey, APIServer, s.Bundle.ServiceAccount.PrivateKey),
		secret(caKey, ControllerManager, s.Bundle.CA.PrivateKey),
	}
}

func directories() []host.Dir {
	return []host.Dir{
		{Path: kubernetesDir, Mode: 0o755},
		{Path: pkiDir, Mode: 0o755},
		{Path: etcdDir, Mode: 0o755},
	}
}

// serviceIPs are the addresses of the Service "kubernetes": the first one of
// each service range. A malformed range has none (ValidateCIDRs reports it).
func serviceIPs(cidrs []string) []string {
	var out []string
	for _, cidr := range cidrs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, prefix.Masked().Addr().Next().String())
		}
	}
	return out
}
