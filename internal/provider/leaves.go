package provider

import (
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// memberLeaves are the certificates of an etcd member.
func memberLeaves(name, address string) []pki.Leaf {
	return []pki.Leaf{pki.EtcdServer(name, address), pki.EtcdPeer(name, address), pki.EtcdHealthcheckClient()}
}

// serviceIPs are the addresses of the Service "kubernetes": the first one of
// each service range. A malformed range has none (ValidateConfig reports it).
func serviceIPs(cidrs []string) []string {
	var out []string
	for _, cidr := range cidrs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			out = append(out, prefix.Masked().Addr().Next().String())
		}
	}
	return out
}
