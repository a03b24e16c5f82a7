package pki

// clusterAdmins is the group that kubeadm gives to admin.conf, and to the API
// server's kubelet client. It has rights only once a ClusterRoleBinding to
// cluster-admin exists.
const clusterAdmins = "kubeadm:cluster-admins"

// APIServerNames are what the API server's serving certificate depends on.
type APIServerNames struct {
	NodeName      string
	ClusterDomain string   // "cluster.local"
	ServiceIPs    []string // the first address of each service CIDR
	Advertise     string   // the machine's address
	Endpoint      string   // host of the endpoint: IP or DNS name; may be empty
	Extra         []string
}

// APIServer and the functions below are kubeadm's table (v1.34), one leaf each,
// but for the groups of the kubelet client.
func APIServer(n APIServerNames) Leaf {
	hosts := []string{
		n.NodeName,
		"kubernetes",
		"kubernetes.default",
		"kubernetes.default.svc",
		"kubernetes.default.svc." + n.ClusterDomain,
		n.Advertise,
	}
	hosts = append(hosts, n.ServiceIPs...)
	if n.Endpoint != "" {
		hosts = append(hosts, n.Endpoint)
	}
	return Leaf{
		Name:       "apiserver",
		Authority:  Kubernetes,
		CommonName: "kube-apiserver",
		Usage:      Server,
		Hosts:      append(hosts, n.Extra...),
	}
}

// KubeletClientUser is who the API server is to kubelets. It has rights only once
// it is bound to a role: system:kubelet-api-admin is made for it.
const KubeletClientUser = "kube-apiserver-kubelet-client"

// APIServerKubeletClient is what the API server shows to kubelets. kubeadm puts it
// into the group of the administrators, so that a key that lies on every replica
// may do everything in the cluster; kubelets ask for nothing but their own API.
func APIServerKubeletClient() Leaf {
	return client("apiserver-kubelet-client", Kubernetes, KubeletClientUser)
}

// FrontProxyClient is what the API server shows to aggregated API servers.
func FrontProxyClient() Leaf {
	return client("front-proxy-client", FrontProxy, "front-proxy-client")
}

// APIServerEtcdClient is what the API server shows to etcd.
func APIServerEtcdClient() Leaf {
	return client("apiserver-etcd-client", Etcd, "kube-apiserver-etcd-client")
}

// EtcdServer is a member's serving certificate.
func EtcdServer(name, address string) Leaf { return etcdMember("etcd/server", name, address) }

// EtcdPeer is a member's certificate towards its peers.
func EtcdPeer(name, address string) Leaf { return etcdMember("etcd/peer", name, address) }

// EtcdHealthcheckClient is the operator's and the probes' client certificate for etcd.
func EtcdHealthcheckClient() Leaf {
	return client("etcd/healthcheck-client", Etcd, "kube-etcd-healthcheck-client")
}

// User is a client certificate for a kubeconfig.
func User(name string, groups ...string) Leaf {
	return client(name, Kubernetes, name, groups...)
}

func client(file string, authority Authority, commonName string, groups ...string) Leaf {
	return Leaf{Name: file, Authority: authority, CommonName: commonName, Organizations: groups, Usage: Client}
}

// etcdMember allows both usages for both certificates: a member dials its peers
// with the certificate it serves, and its own gRPC gateway dials itself with
// the serving one.
func etcdMember(file, name, address string) Leaf {
	return Leaf{
		Name:       file,
		Authority:  Etcd,
		CommonName: name,
		Usage:      Server | Client,
		Hosts:      []string{name, "localhost", address, "127.0.0.1", "::1"},
	}
}
