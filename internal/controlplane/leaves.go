package controlplane

import "github.com/kubequorum/terraform-provider-kube/internal/pki"

// Leaves are all the certificates that a replica with these names needs, so
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

func adminUser() pki.Leaf { return pki.User("kubernetes-admin", AdminGroup) }

// mastersUser is who the provider is to an API server: above RBAC, because it
// makes sure of the binding that gives administrators their rights.
func mastersUser() pki.Leaf { return pki.User("terraform-provider-kube", "system:masters") }

// names are what the serving certificate of s depends on.
func (s Spec) names() pki.APIServerNames {
	return pki.APIServerNames{
		NodeName:      s.Name,
		ClusterDomain: s.domain(),
		ServiceIPs:    ServiceIPs(s.ServiceCIDRs),
		Advertise:     s.Host.Address(),
		Endpoint:      s.EndpointHost,
		Extra:         s.ExtraSANs,
	}
}
