package firewall

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// stacked is three machines with all roles.
func stacked() Site {
	machines := addresses("10.0.0.12", "10.0.0.11", "10.0.0.13")
	return Site{
		Machines: map[Role][]netip.Addr{Members: machines, Replicas: machines, Balancers: machines},
		Remote: map[Role][]netip.Prefix{
			Operator: prefixes("10.0.9.5/32"), Clients: prefixes("10.0.0.0/16", "fd00::/8"),
			Nodes: prefixes("10.0.1.0/24"), Monitoring: prefixes("10.0.9.20/32"),
		},
		Endpoint: "haproxy",
	}
}

// line is a rule in short.
func line(r Rule) string {
	words := []string{r.Name, r.Machine.String(), string(r.Direction), r.Remote.String(), string(r.Protocol)}
	return strings.Join(words, " ")
}

func lines(rules []Rule) []string {
	var all []string
	for _, r := range rules {
		all = append(all, line(r))
	}
	return all
}

func TestRules(t *testing.T) {
	rules := stacked().Rules()
	have := lines(rules)
	for _, want := range []string{
		"ssh 10.0.0.11 ingress 10.0.9.5/32 tcp",
		"etcd-peer 10.0.0.11 ingress 10.0.0.12/32 tcp",
		"etcd-peer 10.0.0.11 egress 10.0.0.13/32 tcp",
		"etcd-client 10.0.0.13 ingress 10.0.0.11/32 tcp",
		"api-client 10.0.0.12 ingress 10.0.0.0/16 tcp",
		"vrrp 10.0.0.12 ingress 10.0.0.13/32 vrrp",
		"kubelet 10.0.0.11 egress 10.0.1.0/24 tcp",
		"https 10.0.0.11 egress 0.0.0.0/0 tcp",
		"metrics-scheduler 10.0.0.11 ingress 10.0.9.20/32 tcp",
		"api-client 10.0.0.12 ingress fd00::/8 tcp",
		"https 10.0.0.11 egress ::/0 tcp",
		"vrrp 10.0.0.12 egress 224.0.0.18/32 vrrp",
	} {
		if !slices.Contains(have, want) {
			t.Errorf("%q is not among the rules", want)
		}
	}
	for i, r := range rules {
		switch {
		case r.Remote.Addr() == r.Machine:
			t.Errorf("a machine is let in to itself: %s", have[i])
		case r.Protocol == VRRP && !r.Remote.Addr().Is4():
			t.Errorf("machines send VRRP in the family of their addresses: %s", have[i])
		case strings.HasPrefix(r.Name, "konnectivity"), strings.HasPrefix(r.Name, "bgp"), strings.HasPrefix(r.Name, "dns"):
			t.Errorf("not needed: %s", have[i])
		case r.Name == "etcd-health":
			t.Errorf("a rule twice: %s", have[i])
		case (r.Port == 0) != (r.Protocol == VRRP):
			t.Errorf("port %d: %s", r.Port, have[i])
		}
	}
}

// TestDualStack: who connects to virtual IPs is let in by the family of his address, whatever that of the machines is.
func TestDualStack(t *testing.T) {
	s := stacked()
	s.DropEgress = true
	s.Remote[EndpointAddresses] = prefixes("10.0.0.100/32", "fd00::100/128", "fd00::101/128")
	s.Remote[BalancerAddresses] = prefixes("fd00::11/128", "fd00::12/128", "fd00::13/128")
	s.Remote[Clients] = prefixes("10.0.0.0/16", "fd00:1::/32")
	s.Remote[Nodes] = prefixes("fd00:2::/32")
	s.Remote[Monitoring] = prefixes("fd00:3::20/128")
	s.Ports = map[Setting]int{BalancerMetricsPort: 8405}
	ingress, egress, _ := strings.Cut(s.NFTables()["10.0.0.11"], "  chain output {")
	for chain, wanted := range map[string][]string{
		ingress: {
			"ip saddr 10.0.0.0/16 tcp dport 6443 accept comment \"api-client\"",
			"ip6 saddr fd00:1::/32 tcp dport 6443 accept comment \"api-client\"",
			"ip6 saddr fd00:2::/32 tcp dport 6443 accept comment \"api-node\"",
			"ip6 saddr fd00::12/128 tcp dport 6443 accept comment \"api-check\"",
			"ip6 saddr fd00:3::20/128 tcp dport 8405 accept comment \"metrics-haproxy\"",
		},
		egress: {
			"ip daddr 10.0.0.100/32 tcp dport 6443 accept comment \"api-check\"",
			"ip6 daddr fd00::100/128 tcp dport 6443 accept comment \"api-check\"",
			"ip6 daddr fd00::101/128 tcp dport 6443 accept comment \"api-check\"",
			"meta nfproto ipv6 tcp dport 443 accept comment \"https\"",
		},
	} {
		for _, want := range append(wanted, "meta l4proto { icmp, ipv6-icmp } accept") { // neighbors are found by ICMPv6
			if !strings.Contains(chain, "    "+want+"\n") {
				t.Errorf("%q is not in\n%s", want, chain)
			}
		}
	}
	if rich := `rule family="ipv6" source address="fd00:1::/32" port port="6443" protocol="tcp" accept`; !slices.Contains(
		s.RichRules()["10.0.0.11"], rich) {
		t.Errorf("firewalld does not let IPv6 clients in: %q", s.RichRules()["10.0.0.11"])
	}
	six := stacked() // and the other way round
	for role := range six.Machines {
		six.Machines[role] = addresses("fd00::11", "fd00::12")
	}
	if have := lines(six.Rules()); !slices.Contains(have, "api-client fd00::11 ingress 10.0.0.0/16 tcp") ||
		!slices.Contains(have, "vrrp fd00::11 egress ff02::12/128 vrrp") {
		t.Errorf("IPv4 clients of IPv6 machines: %q", have)
	}
	six.Machines[Members] = addresses("10.0.0.11", "fd00::12")
	for _, r := range six.Between() {
		if r.Machine.Is4() != r.Remote.Addr().Is4() {
			t.Errorf("between machines of two families: %s", line(r))
		}
	}
}

// TestMachinesThatAreNodes: the kubelet of a machine is reached by the other replicas, and the machine reaches the
// endpoint.
func TestMachinesThatAreNodes(t *testing.T) {
	s := stacked()
	s.Remote[EndpointAddresses] = prefixes("10.0.0.100/32")
	for _, r := range s.Rules() {
		if r.Name == "kubelet" && r.Direction == Ingress {
			t.Errorf("no machine is a node: %s", line(r))
		}
	}
	for name, nodes := range map[string][]netip.Prefix{
		"addresses": prefixes("10.0.1.0/24", "10.0.0.11/32", "10.0.0.12/32"), "a network": prefixes("10.0.0.0/16"),
	} {
		for kind, port := range map[string]int{"haproxy": 443, "kube_vip": 7443} { // of the endpoint, and of replicas
			s.Remote[Nodes], s.Endpoint, s.Ports = nodes, kind, map[Setting]int{EndpointPort: 443, APIPort: 7443}
			rules := s.Rules()
			var kubelets []string
			for _, r := range rulesOf(rules, netip.MustParseAddr("10.0.0.11"), Ingress) {
				if r.Port == 10250 {
					kubelets = append(kubelets, r.Remote.String())
				}
			}
			if want := []string{"10.0.0.12/32", "10.0.0.13/32"}; !slices.Equal(kubelets, want) {
				t.Errorf("%s, %s: the kubelet is reached from %q, want %q", name, kind, kubelets, want)
			}
			if !slices.ContainsFunc(rules, func(r Rule) bool {
				return r.Machine.String() == "10.0.0.11" && r.Direction == Egress && r.Port == port &&
					r.Remote.String() == "10.0.0.100/32"
			}) {
				t.Errorf("%s, %s: the kubelet of the machine does not reach the endpoint", name, kind)
			}
		}
	}
}

// TestRulesOfEtcdMetrics: who scrapes etcd at a port of its own is not let in at the client port.
func TestRulesOfEtcdMetrics(t *testing.T) {
	s := stacked()
	monitoring := prefixes("10.0.9.20/32")[0]
	for want, ports := range map[int]map[Setting]int{2379: nil, 2382: {EtcdMetricsPort: 2382}} {
		s.Ports = ports
		open := map[int]bool{}
		for _, r := range s.Rules() {
			if r.Remote == monitoring {
				open[r.Port] = true
			}
		}
		if !open[want] || open[2379] && open[2382] {
			t.Errorf("with %v, the monitoring system reaches %v", ports, open)
		}
	}
}

func TestRulesOfKinds(t *testing.T) {
	for kind, c := range map[string]struct{ want, never []string }{
		"haproxy":  {[]string{"vrrp", "api-balancer", "metrics-haproxy"}, []string{"bgp", "api-external"}},
		"external": {[]string{"api-external"}, []string{"vrrp", "api-client", "bgp", "metrics-haproxy"}},
		"dns":      {[]string{"dns-update", "api-client", "api-survivor"}, []string{"vrrp"}},
		"bgp":      {[]string{"bgp", "bfd", "bfd-multihop", "api-client"}, []string{"vrrp", "dns-update"}},
		"kube_vip": {[]string{"api-client", "bgp"}, []string{"vrrp", "bfd"}},
	} {
		s := stacked()
		s.Endpoint, s.Ports = kind, map[Setting]int{
			AgentPort: 8132, APIPort: 7443, SSHPort: 2222, BalancerMetricsPort: 8405, NodeExporterPort: 9100,
		}
		s.Remote[Routers], s.Remote[NameServers] = prefixes("10.0.2.1/32"), prefixes("10.0.2.53/32")
		s.Remote[ExternalBalancers] = prefixes("10.0.3.0/24")
		names := map[string]int{}
		for _, r := range s.Rules() {
			names[r.Name] = r.Port
		}
		for _, name := range append(c.want, "konnectivity", "ssh", "metrics-node") {
			if _, ok := names[name]; !ok {
				t.Errorf("%s: no rule %s", kind, name)
			}
		}
		for _, name := range c.never {
			if _, ok := names[name]; ok {
				t.Errorf("%s: the rule %s", kind, name)
			}
		}
		if names["metrics-apiserver"] == 6443 || names["ssh"] != 2222 || names["konnectivity"] != 8132 {
			t.Errorf("%s: other ports than configured: %v", kind, names)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Site)
		want   string
	}{
		"complete":            {func(*Site) {}, ""},
		"no kind":             {func(s *Site) { s.Endpoint = "vip" }, `endpoint "vip" is no kind`},
		"no machines":         {func(s *Site) { s.Machines = nil }, "there are no machines"},
		"no operator":         {func(s *Site) { s.Remote = nil }, "operator is empty"},
		"no port":             {func(s *Site) { s.Ports = map[Setting]int{APIPort: 65536} }, "port 65536 is no port"},
		"no virtual IP":       {func(s *Site) { s.DropEgress = true }, "endpoint_addresses is empty"},
		"another endpoint":    {func(s *Site) { s.DropEgress, s.Endpoint = true, "bgp" }, ""},
		"no machine's":        {func(s *Site) { s.Machines[Members] = addresses("0.0.0.0") }, "not the address of a machine"},
		"an address of links": {func(s *Site) { s.Machines[Members] = addresses("fe80::1%eth0") }, "not the address"},
	} {
		s := stacked()
		c.change(&s)
		err := s.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRendered(t *testing.T) {
	s := stacked()
	file := s.NFTables()["10.0.0.11"]
	for _, want := range []string{
		"policy drop;", "    iif lo accept\n", "    meta l4proto { icmp, ipv6-icmp } accept\n",
		"    ip6 saddr fd00::/8 tcp dport 6443 accept comment \"api-client\"\n",
		"    ip saddr 10.0.9.5/32 tcp dport 22 accept comment \"ssh\"\n",
		"    ip saddr 10.0.0.12/32 meta l4proto 112 accept comment \"vrrp\"\n",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("%q is not in\n%s", want, file)
		}
	}
	if strings.Contains(file, "10250") {
		t.Errorf("what the machine does not accept is in\n%s", file)
	}
	if strings.Contains(file, "hook output") {
		t.Errorf("what goes out is dropped by default:\n%s", file)
	}
	rules := s.RichRules()["10.0.0.11"]
	for _, want := range []string{
		`rule family="ipv4" source address="10.0.9.5/32" port port="22" protocol="tcp" accept`,
		`rule family="ipv4" source address="10.0.0.12/32" protocol value="vrrp" accept`,
	} {
		if !slices.Contains(rules, want) {
			t.Errorf("%q is not in\n%s", want, strings.Join(rules, "\n"))
		}
	}
	six := stacked()
	for role := range six.Machines {
		six.Machines[role] = addresses("fd00::11", "fd00::12")
	}
	if file := six.NFTables()["fd00::11"]; !strings.Contains(file, "ip6 saddr fd00::12/128 tcp dport 2380 accept") {
		t.Errorf("not with IPv6:\n%s", file)
	}
}

// TestDropEgress: the rules of egress are a chain of their own, and that of ingress stays as it is.
func TestDropEgress(t *testing.T) {
	s := stacked()
	s.Remote[EndpointAddresses] = prefixes("10.0.0.100/32")
	ingress := s.NFTables()["10.0.0.11"]
	s.DropEgress = true
	both := s.NFTables()["10.0.0.11"]
	egress, cut := strings.CutPrefix(both, strings.TrimSuffix(ingress, "}\n"))
	if !cut {
		t.Fatalf("another chain of ingress:\n%s\nwithout egress:\n%s", both, ingress)
	}
	for _, want := range []string{
		"type filter hook output priority filter; policy drop;", "    oif lo accept\n",
		"    ct state established,related accept\n",
		"    ip daddr 10.0.0.12/32 tcp dport 2380 accept comment \"etcd-peer\"\n",
		"    ip daddr 10.0.0.100/32 tcp dport 6443 accept comment \"api-check\"\n",
		"    ip daddr 10.0.0.12/32 meta l4proto 112 accept comment \"vrrp\"\n",
		"    ip daddr 10.0.1.0/24 tcp dport 10250 accept comment \"kubelet\"\n",
		"    meta nfproto ipv4 tcp dport 443 accept comment \"https\"\n",
		"    meta nfproto ipv4 udp dport 53 accept comment \"resolver\"\n",
	} {
		if !strings.Contains(egress, want) {
			t.Errorf("%q is not in\n%s", want, egress)
		}
	}
	if strings.Contains(egress, "saddr") || strings.Contains(egress, "dport 22 ") {
		t.Errorf("what comes in is among what goes out:\n%s", egress)
	}
}

// TestFlows: each name is one port or setting, and each flow has its part in the table.
func TestFlows(t *testing.T) {
	table := Table()
	for _, f := range Flows {
		if f.Purpose == "" || !strings.Contains(table, "| "+f.Name+" |") {
			t.Errorf("%s is not explained", f.Name)
		}
		for _, kind := range f.Kinds {
			if !slices.Contains(Kinds, kind) {
				t.Errorf("%s is for %q, which is no kind of endpoint", f.Name, kind)
			}
		}
	}
}

func TestBetween(t *testing.T) {
	s := stacked()
	s.Ports = map[Setting]int{EndpointPort: 443}
	var have []string
	for _, r := range s.Between() {
		if r.Direction != Ingress || r.Protocol != TCP || !slices.Contains(s.machines(Machines), r.Remote.Addr()) {
			t.Errorf("not between machines over TCP: %s", line(r))
		}
		if r.Machine.String() == "10.0.0.11" && r.Remote.Addr().String() == "10.0.0.12" {
			have = append(have, r.Name)
		}
	}
	if want := []string{"etcd-peer", "etcd-client", "api-balancer", "api-check"}; !slices.Equal(have, want) {
		t.Errorf("between two machines: %q, want %q", have, want)
	}
}

// TestVRRPBetween: what is not heard is named in both directions, as each firewall has it.
func TestVRRPBetween(t *testing.T) {
	s := stacked()
	s.Machines[Balancers] = addresses("10.0.0.11", "10.0.0.12")
	rules := s.VRRPBetween()
	want := []string{"vrrp 10.0.0.11 ingress 10.0.0.12/32 vrrp", "vrrp 10.0.0.12 ingress 10.0.0.11/32 vrrp"}
	if have := lines(rules); !slices.Equal(have, want) {
		t.Fatalf("between two balancers: %q, want %q", have, want)
	}
	for _, want := range []string{
		"let VRRP (IP protocol 112) in on 10.0.0.11 from 10.0.0.12 (ingress; ",
		"nftables: ip saddr 10.0.0.12/32 meta l4proto 112 accept; ",
		`'rule family="ipv4" source address="10.0.0.12/32" protocol value="vrrp" accept'; `,
		"security group: inbound VRRP (IP protocol 112) from 10.0.0.12/32)",
		"let VRRP (IP protocol 112) out on 10.0.0.12 to 10.0.0.11 (egress)",
	} {
		if !strings.Contains(rules[0].Missing(), want) {
			t.Errorf("%q is not in\n%s", want, rules[0].Missing())
		}
	}
}

func TestMissing(t *testing.T) {
	r := Rule{
		Machine: netip.MustParseAddr("fd00::11"), Remote: netip.MustParsePrefix("fd00::12/128"), Protocol: TCP, Port: 2380,
	}
	for _, want := range []string{
		"let TCP 2380 in on fd00::11 from fd00::12 (ingress; nftables: ip6 saddr fd00::12/128 tcp dport 2380 accept; ",
		`'rule family="ipv6" source address="fd00::12/128" port port="2380" protocol="tcp" accept'; `,
		"inbound TCP 2380 from fd00::12/128)", "let TCP 2380 out on fd00::12 to fd00::11 (egress)",
	} {
		if !strings.Contains(r.Missing(), want) {
			t.Errorf("%q is not in\n%s", want, r.Missing())
		}
	}
}
