package component

import (
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Leaves returns all certificates that a replica with these names may need, so that they can be
// requested from a CA whose key is external.
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

// LeavesWithoutAdmin returns the certificates of a replica that has no admin.conf.
func LeavesWithoutAdmin(names pki.APIServerNames) []pki.Leaf {
	return slices.DeleteFunc(Leaves(names), func(leaf pki.Leaf) bool { return leaf.Name == Admin().Name })
}

// leaves returns the certificates that s needs.
func (s Replica) leaves() []pki.Leaf {
	leaves := Leaves(s.CertificateNames())
	if s.NoAdminConf {
		leaves = LeavesWithoutAdmin(s.CertificateNames())
	}
	if s.EndpointLease != "" {
		leaves = append(leaves, LeaseHolder(s.Name, s.LeaseHolders))
	}
	return leaves
}

// Admin returns the administrator of admin.conf.
func Admin() pki.Leaf { return pki.User("kubernetes-admin", AdminGroup) }

// LeaseHolder returns the identity of kube-vip on the machine of a replica. Its group may read and update the Lease
// of the endpoint, and nothing else.
func LeaseHolder(replica, group string) pki.Leaf { return pki.User("kube-vip:"+replica, group) }

// SystemMasters returns the identity that the provider uses with an API server. It bypasses
// RBAC, because the provider ensures the binding that grants administrators their rights.
func SystemMasters() pki.Leaf { return pki.User("terraform-provider-kube", "system:masters") }

// CertificateNames returns the values that the serving certificate of s depends on.
func (s Replica) CertificateNames() pki.APIServerNames {
	return pki.APIServerNames{
		NodeName:      s.Name,
		ClusterDomain: s.Domain(),
		ServiceIPs:    ServiceIPs(s.ServiceCIDRs),
		Advertise:     s.Address,
		Endpoint:      s.EndpointHost,
		Endpoint6:     s.EndpointHost6,
		Additional:    s.AdditionalHosts,
		Extra:         s.ExtraSANs,
	}
}
