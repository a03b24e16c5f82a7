// Package barrier finds what keeps others from reaching a program on a machine, or the program from
// working there: a firewalld that does not let its ports in, and an enforcing SELinux. It changes
// neither: it says which commands an administrator runs.
package barrier

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed observe.sh
var observeScript host.Script

// VRRP is the name of the IP protocol that keepalived speaks, as firewalld and /etc/protocols have it.
const VRRP = "vrrp"

// Opening is what other machines must be able to send to a machine.
type Opening struct {
	Protocol string       // "tcp", "udp", or an IP protocol without ports
	Port     int          // 0 for a protocol without ports
	From     []netip.Addr // who sends; empty: anybody, at the interface with the machine's own address
}

// String returns the opening as firewall-cmd has it: "6443/tcp", "vrrp".
func (o Opening) String() string {
	if o.Port == 0 {
		return o.Protocol
	}
	return strconv.Itoa(o.Port) + "/" + o.Protocol
}

// Needs is what a program needs of its machine.
type Needs struct {
	Openings []Opening
	// Boolean of SELinux that lets the program use any port; "" if it needs none.
	Boolean string
	// Labelled is the port for which an administrator may have made another rule than Boolean.
	Labelled int
}

// Problems returns why the needs are not met on a machine, each with the commands that meet them. A
// machine without firewalld and without an enforcing SELinux has none. Only an error of the
// connection is an error.
func Problems(ctx context.Context, h *host.Host, n Needs) ([]string, error) {
	output, err := h.Run(ctx, host.Command{
		Script: observeScript, Vars: map[string]string{"address": h.Address(), "booleans": n.Boolean},
	})
	if err != nil {
		return nil, fmt.Errorf("observe firewalld and SELinux: %w", err)
	}
	s := parse(output)
	return append(s.closed(n.Openings), s.denied(n)...), nil
}

// state is what confines programs on a machine.
type state struct {
	enforcing bool
	booleans  map[string]bool // of SELinux; missing: the policy does not have it
	labelled  []ports         // by the administrator

	firewalld bool
	device    string // the interface that has the machine's own address; "" if there is none
	zone      string // of interfaces in no zone
	zones     map[string]*zone
	policies  []*zone
	services  map[string]*access
}

// denied returns what SELinux forbids.
func (s state) denied(n Needs) []string {
	on, known := s.booleans[n.Boolean]
	if n.Boolean == "" || !s.enforcing || !known || on {
		return nil
	}
	own := Opening{Protocol: "tcp", Port: n.Labelled}
	if slices.ContainsFunc(s.labelled, func(p ports) bool { return p.contain(own) }) {
		return nil
	}
	return []string{fmt.Sprintf("SELinux is enforcing and its boolean %s is off, so the program may use only the ports "+
		"that the policy names: run setsebool -P %s 1", n.Boolean, n.Boolean)}
}

// closed returns which openings firewalld does not let in, a line for each zone.
func (s state) closed(openings []Opening) []string {
	if !s.firewalld {
		return nil
	}
	missing := map[string][]string{} // zone → arguments of firewall-cmd
	var order []string
	for _, o := range openings {
		for _, name := range s.zonesOf(o.From) {
			if z := s.zones[name]; z == nil || z.admits(o, s.services) || s.policyAdmits(o) {
				continue // let in, or what firewalld says of the zone is not known
			}
			if missing[name] == nil {
				order = append(order, name)
			}
			if argument := o.argument(); !slices.Contains(missing[name], argument) {
				missing[name] = append(missing[name], argument)
			}
		}
	}
	var lines []string
	for _, name := range order {
		var what []string
		for _, argument := range missing[name] {
			_, value, _ := strings.Cut(argument, "=")
			what = append(what, value)
		}
		lines = append(lines, fmt.Sprintf("firewalld does not let in %s (zone %s), which other machines need: run %s",
			strings.Join(what, ", "), name, commands(name, missing[name])))
	}
	return lines
}

// commands returns what lets in the arguments of a zone for good. firewall-cmd takes ports and protocols
// apart.
func commands(zone string, arguments []string) string {
	var all []string
	for _, kind := range []string{"--add-port=", "--add-protocol="} {
		var some []string
		for _, argument := range arguments {
			if strings.HasPrefix(argument, kind) {
				some = append(some, argument)
			}
		}
		if len(some) > 0 {
			all = append(all, "firewall-cmd --permanent --zone="+zone+" "+strings.Join(some, " "))
		}
	}
	return strings.Join(append(all, "firewall-cmd --reload"), " && ")
}

// policyAdmits reports whether a policy lets in what is sent to the machine, whatever zone it comes from:
// that is the administrator's decision.
func (s state) policyAdmits(o Opening) bool {
	return slices.ContainsFunc(s.policies, func(p *zone) bool {
		return slices.Contains(p.egress, "HOST") && p.admits(o, s.services)
	})
}

func (o Opening) argument() string {
	if o.Port == 0 {
		return "--add-protocol=" + o.Protocol
	}
	return "--add-port=" + o.String()
}

// zonesOf returns the zones of what these senders send: that of the sender's address, or else that of
// the interface.
func (s state) zonesOf(from []netip.Addr) []string {
	if len(from) == 0 {
		return []string{s.interfaceZone()}
	}
	var names []string
	for _, sender := range from {
		name := cmp.Or(s.sourceZone(sender), s.interfaceZone())
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (s state) interfaceZone() string {
	for name, z := range s.zones {
		if slices.Contains(z.interfaces, s.device) {
			return name
		}
	}
	return s.zone
}

func (s state) sourceZone(sender netip.Addr) string {
	best, bits := "", -1
	for name, z := range s.zones {
		for _, source := range z.sources {
			if source.Contains(sender) && source.Bits() > bits {
				best, bits = name, source.Bits()
			}
		}
	}
	return best
}
