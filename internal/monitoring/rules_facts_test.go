package monitoring

import (
	"net/netip"
	"strings"
	"testing"
)

// TestAddressHolders: the machines that can have the virtual IP are those of the endpoint, whether their HAProxy serves
// metrics or not. With kube-vip, they are the replicas.
func TestAddressHolders(t *testing.T) {
	named := func(names ...string) map[string]netip.Addr {
		all := map[string]netip.Addr{}
		for i, name := range names {
			all[name] = netip.AddrFrom4([4]byte{10, 0, name[0], byte(i + 1)})
		}
		return all
	}
	replicas, two := named("cp1", "cp2", "cp3"), named("lb1", "lb2")
	for name, test := range map[string]struct {
		facts   Facts
		needs   string // the machines of which each that answers must say that it does not have the address
		scraped bool   // HAProxy
		written bool   // the endpoint's facts on lb2
	}{
		"HAProxy without metrics":  {Facts{AddressHolders: two}, `"lb1|lb2"`, false, true},
		"HAProxy with metrics":     {Facts{AddressHolders: two, Balancers: two}, `"lb1|lb2"`, true, true},
		"balancers alone":          {Facts{Balancers: two}, `"lb1|lb2"`, true, true},
		"balancers, one with them": {Facts{Balancers: named("lb1"), AddressHolders: two}, `"lb1|lb2"`, true, true},
		"kube-vip":                 {Facts{}, `"cp1|cp2|cp3"`, false, false},
	} {
		f := test.facts
		f.Cluster, f.Replicas, f.NodePort = "a", replicas, 9100
		if err := f.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var scraped, node, needs, written, shown bool
		for _, target := range f.targets(true) {
			scraped = scraped || target.job == jobHAProxy
			node = node || target.job == jobNode && target.machine == "lb2"
		}
		for _, group := range Groups(f) {
			for _, rule := range group.Rules {
				needs = needs || rule.Alert == "KubeVirtualIPOnNoMachine" && strings.Contains(rule.Expr, "machine=~"+test.needs)
				written = written || rule.Alert == "KubeFactsMissing" && rule.Labels["machine"] == "lb2" &&
					rule.Labels["resource"] == endpointResource
			}
		}
		for _, p := range f.operationsPanels() {
			shown = shown || p.Title == "Virtual IP"
		}
		if shown != test.written {
			t.Errorf("%s: a panel shows who has the virtual IP: %v", name, shown)
		}
		if scraped != test.scraped || node != test.written || !needs || written != test.written {
			t.Errorf("%s: HAProxy is scraped: %v, node_exporter of lb2: %v, %s: %v, facts of lb2 are missed: %v", name, scraped,
				node, test.needs, needs, written)
		}
	}
}
