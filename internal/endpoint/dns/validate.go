package dns

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

const (
	// maxTTL limits the time that every stop of an API server takes.
	maxTTL = time.Minute
	// defaultPort is that of name servers.
	defaultPort = 53
)

func dnsName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// Validate checks a registration at a dns endpoint: that of a configuration, or one that a machine
// has recorded.
func Validate(r endpoint.Registration) error {
	if r.Zone == nil {
		return errors.New("a dns endpoint needs a zone")
	}
	_, probeErr := netip.ParseAddr(r.ProbeFrom)
	if r.ProbeFrom == "" {
		probeErr = nil
	}
	return errors.Join(ValidateAddress(r.Address, r.Zone.Name), ValidateTargets(r.Address, r.Hosts),
		endpoint.ValidatePort(r.Port), probeErr, ValidateZone(*r.Zone))
}

// ValidateAddress checks that an endpoint's address is a name in the zone.
func ValidateAddress(address, zone string) error {
	if _, err := netip.ParseAddr(address); err == nil || !dnsName(address) {
		return fmt.Errorf("%q is not a DNS name in lower case", address)
	}
	if address != zone && !strings.HasSuffix(address, "."+zone) {
		return fmt.Errorf("%q is not in the zone %q", address, zone)
	}
	return nil
}

// ValidateTargets checks the machines of the replicas. Their addresses are of one family: a client
// that prefers one would never use the others.
func ValidateTargets(address string, hosts map[string]string) error {
	if err := targets.Validate(address, hosts); err != nil {
		return err
	}
	families := map[uint16]string{}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		families[familyOf(hosts[name])] = name
	}
	if len(families) > 1 {
		return fmt.Errorf("target %s has an IPv4 address and target %s an IPv6 address: the records must be of one family",
			families[miekg.TypeA], families[miekg.TypeAAAA])
	}
	return nil
}

// familyOf returns the type of the record for a valid address.
func familyOf(address string) uint16 {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return miekg.TypeAAAA
	}
	return miekg.TypeA
}

// ValidateZone checks the settings of a zone.
func ValidateZone(z endpoint.Zone) error {
	checks := []error{validateServer(z.Server)}
	for _, server := range z.NameServers {
		checks = append(checks, validateServer(server))
	}
	if !dnsName(z.Name) {
		checks = append(checks, fmt.Errorf("zone %q is not a DNS name in lower case", z.Name))
	}
	if !dnsName(z.TSIGKey) {
		checks = append(checks, fmt.Errorf("%q is not the name of a key: it has to be a DNS name", z.TSIGKey))
	}
	if z.TTL < time.Second || z.TTL > maxTTL || z.TTL%time.Second != 0 {
		checks = append(checks, fmt.Errorf("time to live %s is not a number of seconds up to %s: each stop of an API "+
			"server takes that long", z.TTL, maxTTL))
	}
	if z.CheckInterval < 500*time.Millisecond || z.CheckInterval > maxTTL {
		checks = append(checks, fmt.Errorf("interval %s is not between 500ms and %s", z.CheckInterval, maxTTL))
	}
	if z.CheckThreshold < 1 || z.CheckThreshold > 100 {
		checks = append(checks, fmt.Errorf("threshold %d is not between 1 and 100", z.CheckThreshold))
	}
	return errors.Join(checks...)
}

// ServerAddress returns IP:port for an IP address, with or without a port.
func ServerAddress(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(ip, defaultPort).String(), nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return "", fmt.Errorf("%q is neither an IP address nor IP:port", text)
	}
	return at.String(), validateServer(at.String())
}

// WithoutDefaultPort returns the server of ServerAddress as most configurations have it: without the port 53.
func WithoutDefaultPort(address string) string {
	if at, err := netip.ParseAddrPort(address); err == nil && at.Port() == defaultPort {
		return at.Addr().String()
	}
	return address
}

func validateServer(text string) error {
	at, err := netip.ParseAddrPort(text)
	if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return fmt.Errorf("%q is not IP:port of a name server", text)
	}
	return nil
}
