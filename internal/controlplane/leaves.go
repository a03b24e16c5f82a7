package controlplane

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
		adminUser(),
		pki.User("system:kube-controller-manager"),
		pki.User("system:kube-scheduler"),
		mastersUser(),
	}
}

// LeavesWithoutAdmin are those that a replica needs on whose machine there is to be
// no admin.conf.
func LeavesWithoutAdmin(names pki.APIServerNames) []pki.Leaf {
	return slices.DeleteFunc(Leaves(names), func(leaf pki.Leaf) bool { return leaf.Name == adminUser().Name })
}

// leaves are the certificates that s needs.
func (s Replica) leaves() []pki.Leaf {
	if s.NoAdminConf {
		return LeavesWithoutAdmin(s.names())
	}
	return Leaves(s.names())
}

func adminUser() pki.Leaf { return pki.User("kubernetes-admin", AdminGroup) }

// mastersUser is who the provider is to an API server: above RBAC, because it
// makes sure of the binding that gives administrators their rights.
func mastersUser() pki.Leaf { return pki.User("terraform-provider-kube", "system:masters") }

// names are what the serving certificate of s depends on.
func (s Replica) names() pki.APIServerNames {
	return pki.APIServerNames{
		NodeName:      s.Name,
		ClusterDomain: s.domain(),
		ServiceIPs:    ServiceIPs(s.ServiceCIDRs),
		Advertise:     s.Address,
		Endpoint:      s.EndpointHost,
		Extra:         s.ExtraSANs,
	}
}
