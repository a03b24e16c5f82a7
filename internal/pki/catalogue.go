package pki

import "slices"

// clusterAdmins is the group that kubeadm assigns to admin.conf and, up to 1.35, to the API
// server's kubelet client. It has no rights until a ClusterRoleBinding to cluster-admin exists.
const clusterAdmins = "kubeadm:cluster-admins"

// APIServerNames are the values that the API server's serving certificate depends on.
type APIServerNames struct {
	NodeName      string
	ClusterDomain string   // "cluster.local"
	ServiceIPs    []string // the first address of each service CIDR
	Advertise     string   // the machine's address
	Endpoint      string   // host of the endpoint: IP or DNS name; may be empty
	Endpoint6     string   // second address of a dual-stack endpoint; may be empty
	Additional    []string // hosts of additional endpoints; those that are equal to Endpoint change nothing
	Extra         []string
}

// APIServer and the functions below return the leaves of kubeadm's table (v1.36).
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
	if n.Endpoint6 != "" {
		hosts = append(hosts, n.Endpoint6)
	}
	for _, host := range n.Additional {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return Leaf{
		Name:       "apiserver",
		Authority:  Kubernetes,
		CommonName: "kube-apiserver",
		Usage:      Server,
		Hosts:      append(hosts, n.Extra...),
	}
}

// KubeletClientUser is the API server's user name towards kubelets. It has no rights until it
// is bound to a role; system:kubelet-api-admin is intended for it.
const KubeletClientUser = "kube-apiserver-kubelet-client"

// APIServerKubeletClient is the client certificate that the API server presents to kubelets. It
// has no group. Up to 1.35, kubeadm put it into the administrators' group, so that a key on every
// replica granted full access to the cluster, although it is only needed for the kubelet API.
func APIServerKubeletClient() Leaf {
	return client("apiserver-kubelet-client", Kubernetes, KubeletClientUser)
}

// FrontProxyClient is the client certificate that the API server presents to aggregated API
// servers.
func FrontProxyClient() Leaf {
	return client("front-proxy-client", FrontProxy, "front-proxy-client")
}

// APIServerEtcdClient is the client certificate that the API server presents to etcd.
func APIServerEtcdClient() Leaf {
	return client("apiserver-etcd-client", Etcd, "kube-apiserver-etcd-client")
}

// EtcdServer is a member's serving certificate.
func EtcdServer(name, address string) Leaf { return etcdMember("etcd/server", name, address) }

// EtcdPeer is a member's peer certificate.
func EtcdPeer(name, address string) Leaf { return etcdMember("etcd/peer", name, address) }

// EtcdHealthcheckClient is the etcd client certificate for operators and probes.
func EtcdHealthcheckClient() Leaf {
	return client("etcd/healthcheck-client", Etcd, "kube-etcd-healthcheck-client")
}

// User is a client certificate for a kubeconfig.
func User(name string, groups ...string) Leaf {
	return client(name, Kubernetes, name, groups...)
}

// EtcdClient returns the leaf of a client of etcd. etcd knows no rights of clients: its name tells only who it is.
func EtcdClient(name string) Leaf { return client("etcd-client", Etcd, name) }

func client(file string, authority Authority, commonName string, groups ...string) Leaf {
	return Leaf{Name: file, Authority: authority, CommonName: commonName, Organizations: groups, Usage: Client}
}

// etcdMember allows both usages for both certificates. A member dials its peers with its peer
// certificate, and its gRPC gateway dials the member itself with the serving certificate.
func etcdMember(file, name, address string) Leaf {
	return Leaf{
		Name:       file,
		Authority:  Etcd,
		CommonName: name,
		Usage:      Server | Client,
		Hosts:      []string{name, "localhost", address, "127.0.0.1", "::1"},
	}
}
