package machine

import (
	_ "embed"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed apiservers.sh
var apiServersScript host.Script

// APIServersQuery asks the member on a machine which API servers use its cluster. They register
// below prefix.
func APIServersQuery(address, prefix string) host.Query {
	return host.Query{Script: apiServersScript, Vars: map[string]string{
		"unit": layout.UnitPath, "pod": layout.PodPath, "endpoint": membership.ClientURL(address), "pki": layout.PKIDir,
		"prefix": prefix,
	}}
}

// ReadAPIServers returns the addresses in the answer to an APIServersQuery, in canonical form. What
// is not an address is dropped.
func ReadAPIServers(output, prefix string) []string {
	var all []string
	for line := range strings.Lines(output) {
		name, below := strings.CutPrefix(strings.TrimSpace(line), prefix)
		if ip, err := netip.ParseAddr(name); below && err == nil && ip.Zone() == "" {
			all = append(all, ip.Unmap().String())
		}
	}
	return all
}
