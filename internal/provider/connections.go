package provider

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
)

// rulesOfReplicas are the flows of the table that end at replicas, or begin there, and whose other side is a
// machine of the control plane.
var rulesOfReplicas = []string{"etcd-client", "api-balancer", "api-survivor"}

// memberPort is the port for clients of every member that the provider manages.
const memberPort = "2379"

// replicaRules returns what the machine of a replica accepts from other machines of the control plane, and
// they from it, at all of its endpoints.
func replicaRules(own string, port int, etcd []string, registration endpoint.Registration) []firewall.Rule {
	address, err := netip.ParseAddr(own)
	if err != nil {
		return nil
	}
	var rules []firewall.Rule
	for _, each := range registration.All() {
		site := firewall.Site{
			Machines: map[firewall.Role][]netip.Addr{firewall.Replicas: {address}, firewall.Members: members(etcd, address)},
			Endpoint: string(kindOf(each).name()),
			Ports:    map[firewall.Setting]int{firewall.APIPort: cmp.Or(port, component.DefaultPort)},
		}
		if hosts := hostsOf(each); withoutBalancers(each) {
			site.Machines[firewall.Replicas] = append(hosts, address)
		} else {
			site.Machines[firewall.Balancers] = hosts
		}
		for _, r := range site.Between() {
			concerned := r.Machine == address || r.Remote.Addr() == address
			if concerned && slices.Contains(rulesOfReplicas, r.Name) && !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// members returns the addresses of the members behind URLs, on other machines than own. What listens on
// another port, or has a name, is somebody else's etcd.
func members(etcd []string, own netip.Addr) []netip.Addr {
	var all []netip.Addr
	for _, text := range etcd {
		at, err := url.Parse(text)
		if err != nil || at.Port() != memberPort {
			continue
		}
		if address, err := netip.ParseAddr(at.Hostname()); err == nil && address != own && !address.IsLoopback() {
			all = append(all, address)
		}
	}
	return all
}

// hostsOf returns the addresses of the machines of a registration, sorted by their names.
func hostsOf(registration endpoint.Registration) []netip.Addr {
	var all []netip.Addr
	for _, name := range slices.Sorted(maps.Keys(registration.Hosts)) {
		if address, err := netip.ParseAddr(registration.Hosts[name]); err == nil {
			all = append(all, address)
		}
	}
	return all
}
