package haproxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Konnectivity is a second port of the endpoint, through which agents connect to the proxy server
// (konnectivity-server) of each replica.
//
// The servers are part of the endpoint and not of registrations: agents connect to a replica before
// it enters rotation, and while it is drained.
type Konnectivity struct {
	Port    int               // at the virtual IP and at the targets
	Targets map[string]string // name → address; nil means the endpoint's hosts
}

// konnectivityName names the frontend and the backend of agents.
const konnectivityName = "konnectivity"

// konnectivityHeading separates the sections of agents from the others in 10-endpoint.cfg.
const konnectivityHeading = "\nfrontend " + konnectivityName + "\n"

// tunnelTargets returns the machines that agents connect to, by name.
func (s Spec) tunnelTargets() map[string]string {
	if s.Konnectivity.Targets == nil {
		return s.addresses()
	}
	return s.Konnectivity.Targets
}

// renderKonnectivity renders the sections of agents, or nothing. An agent dials until it has a
// connection to each server, so each dial goes to the next one. The check is a TCP connection: the
// proxy servers accept no request without a token.
func renderKonnectivity(s Spec) string {
	if s.Konnectivity == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(konnectivityHeading + s.bindsAt(s.Konnectivity.Port))
	fmt.Fprintf(&b, `    default_backend %[1]s

backend %[1]s
    balance roundrobin
    option tcp-check
    default-server check no-check-ssl inter 1s fastinter 500ms fall 2 rise 1
`, konnectivityName)
	targets := s.tunnelTargets()
	for _, name := range names(targets) {
		address, err := netip.ParseAddr(targets[name])
		if err != nil {
			continue // refused by Spec.validate before
		}
		b.WriteString(server{Name: name, Address: netip.AddrPortFrom(address, uint16(s.Konnectivity.Port))}.bare() + "\n")
	}
	return b.String()
}

// ValidateKonnectivity checks the port of agents of an endpoint that serves the API at port.
func ValidateKonnectivity(k *Konnectivity, port int) error {
	if k == nil {
		return nil
	}
	if k.Port < 1024 || k.Port > 65535 {
		return fmt.Errorf("konnectivity port %d is not between 1024 and 65535", k.Port)
	}
	if k.Port == port {
		return fmt.Errorf("konnectivity port %d is that of the API", k.Port)
	}
	if k.Targets != nil && len(k.Targets) == 0 {
		return errors.New("konnectivity has no targets")
	}
	for _, name := range names(k.Targets) {
		if err := validateName("konnectivity target", name); err != nil {
			return err
		}
		if ip, err := netip.ParseAddr(k.Targets[name]); err != nil || ip.Zone() != "" {
			return fmt.Errorf("konnectivity target %s: %q is not an IP address", name, k.Targets[name])
		}
	}
	return nil
}

var serverLine = regexp.MustCompile(`(?m)^\s*server (\S+) (\S+)` + userTimeout + `$`)

// konnectivityIn parses the sections of agents in 10-endpoint.cfg, which text contains from their heading on.
func konnectivityIn(text string) (*Konnectivity, error) {
	if text == "" {
		return nil, nil
	}
	bind, err := netip.ParseAddrPort(append(bindLine.FindStringSubmatch(text), "", "")[1])
	if err != nil {
		return nil, fmt.Errorf("the port of agents: %w", err)
	}
	k := Konnectivity{Port: int(bind.Port()), Targets: map[string]string{}}
	for _, line := range serverLine.FindAllStringSubmatch(text, -1) {
		at, err := netip.ParseAddrPort(line[2])
		if err != nil || int(at.Port()) != k.Port {
			return nil, errors.New("a target of agents is not at their port " + strconv.Itoa(k.Port))
		}
		k.Targets[line[1]] = at.Addr().String()
	}
	return &k, ValidateKonnectivity(&k, 0)
}

// withHosts returns k without targets if they are the endpoint's hosts.
func (k *Konnectivity) withHosts(hosts map[string]string) *Konnectivity {
	if k != nil && maps.Equal(k.Targets, hosts) {
		return &Konnectivity{Port: k.Port}
	}
	return k
}

// DefaultKonnectivityPort is the port of agents in upstream's manifests.
const DefaultKonnectivityPort = 8132
