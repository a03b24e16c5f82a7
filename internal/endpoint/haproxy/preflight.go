package haproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// preflight checks all hosts before anything is changed, and returns all problems in one
// error.
func preflight(s Spec, seen map[string]balancer) error {
	var reasons []string
	for _, name := range names(seen) {
		for _, reason := range hostProblems(s, seen[name]) {
			reasons = append(reasons, name+" ("+s.Hosts[name].Address()+"): "+reason)
		}
	}
	for _, address := range s.vips() {
		if s.HandOver != "" {
			continue
		}
		if len(holders(address, seen)) == 0 {
			reasons = append(reasons, addressInUse(s, address, seen)...)
		}
		reasons = append(reasons, elsewhere(s, address, seen)...)
	}
	if len(reasons) == 0 {
		return nil
	}
	return unsuitable(s, reasons, seen)
}

func unsuitable(s Spec, reasons []string, seen map[string]balancer) error {
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " cannot be set up on these hosts",
		Cause:     fmt.Sprintf("%d of the checks before the first change failed, see below", len(reasons)),
		Unchanged: problem.Nothing,
		Next:      "fix what is listed below and apply again",
		Detail:    "  " + strings.Join(reasons, "\n  "),
		Err:       unreachableOf(seen),
	}
}

// hostProblems describes why one host cannot be a balancer.
func hostProblems(s Spec, b balancer) []string {
	if b.unreachable != nil {
		return []string{b.unreachable.Error()}
	}
	var reasons []string
	if b.facts.Systemd == "" {
		reasons = append(reasons, "systemd does not run there")
	}
	if missing := packages.HAProxy().Missing(b.facts); len(missing) > 0 {
		list := strings.Join(missing, ", ")
		switch {
		case !s.InstallPackages:
			reasons = append(reasons, "packages are not installed: "+list+
				" (install them, or set haproxy.install_packages = true)")
		case !packages.HasManager(b.facts):
			reasons = append(reasons, "packages are not installed: "+list+", and none of "+
				strings.Join(packages.Managers(), ", ")+" is there to install them")
		}
	}
	if listener := wildcardListener(b, s.port()); listener != "" && !b.formerListener(s) {
		reasons = append(reasons,
			fmt.Sprintf("%s listens on port %d of all addresses, so HAProxy cannot have it on %s (an API server needs "+
				"--bind-address with the machine's own address)", listener, s.port(), strings.Join(s.vips(), " and ")))
	}
	if s.Konnectivity != nil {
		if listener := wildcardListener(b, s.Konnectivity.Port); listener != "" {
			reasons = append(reasons, fmt.Sprintf("%s listens on port %d of all addresses, so HAProxy cannot have it on %s",
				listener, s.Konnectivity.Port, strings.Join(s.vips(), " and ")))
		}
	}
	reasons = append(reasons, s.facts().Problems(b.facts)...)
	reasons = append(reasons, s.liveness(b.device).Problems(b.facts)...)
	if reason := metricsPortProblem(s, b); reason != "" {
		reasons = append(reasons, reason)
	}
	switch {
	case b.device == "" && s.Interface != "":
		reasons = append(reasons, "there is no interface "+s.Interface+" with an address")
	case b.device == "":
		reasons = append(reasons, "no interface has the host's address (set haproxy.interface)")
	}
	if second := s.ipv6VIPs(); len(second) > 0 && b.device != "" && !b.ipv6 {
		reasons = append(reasons, b.device+" has no IPv6 address that other machines can reach, so they would not reach "+
			strings.Join(second, " and ")+" there")
	}
	if s.Inherit {
		return append(reasons, inheritProblems(s, b)...)
	}
	for _, address := range s.vips() {
		if hasOwn(s, b, address) {
			reasons = append(reasons, address+" is already an address of this machine")
		}
	}
	return reasons
}

// hasOwn reports whether a machine has the address of a virtual IP that the endpoint did not give it.
// Where a change of the others was interrupted, keepalived has them together with the first.
func hasOwn(s Spec, b balancer, address string) bool {
	if _, installed := b.facts.Files[keepalivedPath]; !installed || address == s.Address {
		return !installed && b.holdsVIP(address)
	}
	return b.holdsVIP(address) && !b.renders(address) && !b.holdsVIP(s.Address)
}

// wildcardListener returns the process that listens on the port on all addresses, or "".
func wildcardListener(b balancer, port int) string {
	listener, ok := b.facts.Listeners[port]
	if !ok || !slices.ContainsFunc(listener.Addresses, func(a string) bool { return a == "0.0.0.0" || a == "::" }) {
		return ""
	}
	return orDefault(printable(listener.Process), "another program")
}

// stranger returns the hardware address at which a host sees a virtual IP on a machine that is none of the observed
// hosts, or "". One of these may have taken it since its own addresses were observed.
func stranger(address, by string, seen map[string]balancer) string {
	all := make([]neighbors.Answers, 0, len(seen))
	for _, b := range seen {
		all = append(all, b.neighbors)
	}
	return neighbors.Stranger(address, seen[by].neighbors, all...)
}

// addressInUse reports that another machine answers for a virtual IP that none of the observed hosts has.
func addressInUse(s Spec, address string, seen map[string]balancer) []string {
	whose := "none of these hosts"
	if len(seen) < len(s.Hosts) {
		whose = "none of the hosts that could be reached"
	}
	for _, name := range names(seen) {
		if who := stranger(address, name, seen); who != "" {
			return []string{fmt.Sprintf("%s is in use: %s sees it at hardware address %s, which belongs to %s "+
				"(to take it over from a balancer of this control plane, set haproxy.hand_over and let the balancer give it "+
				"up, see the guide Topologies)", address, name, who, whose)}
		}
	}
	return nil
}
