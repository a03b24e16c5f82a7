package firewall

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Kinds are the kinds of endpoints.
var Kinds = []string{"haproxy", "external", "dns", "bgp", "kube_vip"}

// Site is where a control plane is. Addresses are those that its machines use between themselves.
type Site struct {
	Machines map[Role][]netip.Addr   // of Members, Replicas and Balancers
	Remote   map[Role][]netip.Prefix // of the other roles
	Endpoint string                  // one of Kinds
	Ports    map[Setting]int         // that are not the defaults
	// DropEgress lets machines send nothing either but what the control plane needs.
	DropEgress bool
}

// Direction is that of a connection, as its machine has it.
type Direction string

// The directions.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Rule lets one machine accept or open connections.
type Rule struct {
	Name      string
	Machine   netip.Addr
	Direction Direction
	Remote    netip.Prefix // who may connect, or to whom
	Protocol  Protocol
	Port      int // of the receiver; 0: the protocol has none
	Purpose   string
}

// Validate checks that the site has what every control plane has.
func (s Site) Validate() error {
	if !slices.Contains(Kinds, s.Endpoint) {
		return fmt.Errorf("endpoint %q is no kind of endpoint: use one of %v", s.Endpoint, Kinds)
	}
	for setting, port := range s.Ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%s %d is no port: use 1 to 65535", setting, port)
		}
	}
	for _, role := range []Role{Members, Replicas, Balancers} {
		for _, address := range s.Machines[role] {
			if !address.IsValid() || address.IsUnspecified() || address.Zone() != "" {
				return fmt.Errorf("%s: %s is not the address of a machine", role, address)
			}
		}
	}
	if len(s.machines(Machines)) == 0 {
		return fmt.Errorf("there are no machines: set members, replicas or balancers")
	}
	if len(s.Remote[Operator]) == 0 {
		return fmt.Errorf("operator is empty: without SSH, the provider reaches no machine")
	}
	if s.DropEgress && s.Endpoint == "haproxy" && len(s.Remote[EndpointAddresses]) == 0 {
		return fmt.Errorf("endpoint_addresses is empty: with drop_egress, the machines would not reach the virtual IP")
	}
	return nil
}

// machines returns the addresses of the machines of a role, without repetition.
func (s Site) machines(role Role) []netip.Addr {
	all := slices.Clone(s.Machines[role])
	switch role {
	case Machines:
		all = slices.Concat(s.Machines[Members], s.Machines[Replicas], s.Machines[Balancers])
	case Nodes:
		all = slices.DeleteFunc(s.machines(Machines), func(address netip.Addr) bool { return !s.isNode(address) })
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// isNode reports whether a machine runs a kubelet too: its address is among those of the nodes.
func (s Site) isNode(machine netip.Addr) bool {
	return slices.ContainsFunc(s.Remote[Nodes], func(p netip.Prefix) bool { return p.Contains(machine) })
}

// vrrpGroups are the multicast addresses of VRRP (RFC 5798, section 5.1.1.2 and 5.1.2.2).
var vrrpGroups = []netip.Addr{netip.MustParseAddr("224.0.0.18"), netip.MustParseAddr("ff02::12")}

// remotes returns the addresses of a role as the other side of a connection with a machine. Machines use one family
// between themselves. Others may use both: a machine has virtual IPs, routes and further addresses of either family,
// whatever that of its own address is.
func (s Site) remotes(role Role, machine netip.Addr) []netip.Prefix {
	var between []netip.Addr
	switch role {
	case Nodes: // those that are machines are in Remote
	case VRRPGroups:
		between = vrrpGroups
	default:
		between = s.machines(role)
	}
	all := slices.Clone(s.Remote[role])
	for _, address := range between {
		if address.Is4() == machine.Is4() {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	if role == Outside {
		all = append(all, netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	return slices.DeleteFunc(all, func(p netip.Prefix) bool { return p.IsSingleIP() && p.Addr() == machine })
}

// needs reports whether the site has connections of a flow, and their port.
func (s Site) needs(f Flow) (port int, ok bool) {
	port = f.Port
	if f.Setting != "" {
		port = cmp.Or(s.Ports[f.Setting], f.Port)
	}
	_, replaced := s.Ports[f.Unless]
	if replaced || port == 0 && f.Protocol != VRRP {
		return port, false
	}
	return port, len(f.Kinds) == 0 || slices.Contains(f.Kinds, s.Endpoint)
}

// Rules returns the rules of all machines, sorted by machine and in the order of Flows. A rule that
// two flows need is named by the first.
func (s Site) Rules() []Rule {
	var rules []Rule
	for _, f := range Flows {
		port, ok := s.needs(f)
		if !ok {
			continue
		}
		for _, machine := range s.machines(f.To) {
			for _, remote := range s.remotes(f.From, machine) {
				rules = append(rules, Rule{f.Name, machine, Ingress, remote, f.Protocol, port, f.Purpose})
			}
		}
		for _, machine := range s.machines(f.From) {
			for _, remote := range s.remotes(f.To, machine) {
				rules = append(rules, Rule{f.Name, machine, Egress, remote, f.Protocol, port, f.Purpose})
			}
		}
	}
	slices.SortStableFunc(rules, func(a, b Rule) int { return a.Machine.Compare(b.Machine) })
	seen := map[Rule]bool{}
	return slices.DeleteFunc(rules, func(r Rule) bool {
		r.Name, r.Purpose = "", ""
		repeated := seen[r]
		seen[r] = true
		return repeated
	})
}

// Between returns the rules for what one machine accepts from another over TCP.
func (s Site) Between() []Rule { return s.between(TCP) }

// VRRPBetween returns the rules for what one machine accepts from another over VRRP, which has no connections.
func (s Site) VRRPBetween() []Rule { return s.between(VRRP) }

func (s Site) between(protocol Protocol) []Rule {
	return slices.DeleteFunc(s.Rules(), func(r Rule) bool {
		return r.Direction != Ingress || r.Protocol != protocol || !r.Remote.IsSingleIP() ||
			!slices.Contains(s.machines(Machines), r.Remote.Addr())
	})
}

// rulesOf returns the rules of one machine for one direction.
func rulesOf(rules []Rule, machine netip.Addr, direction Direction) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool {
		return r.Machine != machine || r.Direction != direction
	})
}
