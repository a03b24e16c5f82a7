package component

import (
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Leaves are all the certificates that a replica with these names may need, so
// that they can be requested where an authority's key is held elsewhere.
func Leaves(names pki.APIServerNames) []pki.Leaf {
	return []pki.Leaf{
		pki.APIServer(names),
		pki.APIServerKubeletClient(),
		pki.FrontProxyClient(),
		pki.APIServerEtcdClient(),
		Admin(),
		pki.User("system:kube-controller-manager"),
		pki.User("system:kube-scheduler"),
		SystemMasters(),
	}
}

// LeavesWithoutAdmin are those that a replica needs on whose machine there is to be
// no admin.conf.
func LeavesWithoutAdmin(names pki.APIServerNames) []pki.Leaf {
	return slices.DeleteFunc(Leaves(names), func(leaf pki.Leaf) bool { return leaf.Name == Admin().Name })
}

// leaves are the certificates that s needs.
func (s Replica) leaves() []pki.Leaf {
	if s.NoAdminConf {
		return LeavesWithoutAdmin(s.CertificateNames())
	}
	return Leaves(s.CertificateNames())
}

// Admin is the administrator of admin.conf.
func Admin() pki.Leaf { return pki.User("kubernetes-admin", AdminGroup) }

// SystemMasters is who the provider is to an API server: above RBAC, because it
// makes sure of the binding that gives administrators their rights.
func SystemMasters() pki.Leaf { return pki.User("terraform-provider-kube", "system:masters") }

// CertificateNames are what the serving certificate of s depends on.
func (s Replica) CertificateNames() pki.APIServerNames {
	return pki.APIServerNames{
		NodeName:      s.Name,
		ClusterDomain: s.Domain(),
		ServiceIPs:    ServiceIPs(s.ServiceCIDRs),
		Advertise:     s.Address,
		Endpoint:      s.EndpointHost,
		Extra:         s.ExtraSANs,
	}
}
