package haproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var clusterID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// validateClusterID checks the id of a cluster as it is in bundles.
func validateClusterID(id string) error {
	if !clusterID.MatchString(id) {
		return fmt.Errorf("%q is not the id of a cluster", id)
	}
	return nil
}

// ValidateAddress checks a virtual IP.
func ValidateAddress(address string) error {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an IP address", address)
	case ip.Zone() != "":
		return fmt.Errorf("%q has a zone; a virtual IP has none", address)
	case ip.IsUnspecified(), ip.IsLoopback(), ip.IsMulticast(), ip.IsLinkLocalUnicast():
		return fmt.Errorf("%q cannot be a virtual IP: it is not an address that other machines can reach", address)
	}
	return host.CheckAddressForm(address)
}

// ValidateAddress6 checks the second virtual IP of the endpoint at address.
func ValidateAddress6(address, address6 string) error {
	if err := ValidateAddress(address6); err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(address); err != nil || !ip.Is4() {
		return fmt.Errorf("%q is IPv6, and an endpoint with it has an IPv4 address, which %q is not", address6, address)
	}
	if ip, err := netip.ParseAddr(address6); err != nil || !ip.Is6() {
		return fmt.Errorf("%q is not an IPv6 address", address6)
	}
	return nil
}

// MostFurther limits the further virtual IPs of an endpoint. HAProxy listens on each, and keepalived announces each.
const MostFurther = 16

// ValidateFurther checks the further virtual IPs of the endpoint with these two addresses on these hosts (name →
// address): each is another one, and IPv6 if the machines have only that.
func ValidateFurther(address, address6 string, further []string, hosts map[string]string) error {
	if len(further) > MostFurther {
		return fmt.Errorf("there are %d further virtual IPs, and at most %d are supported", len(further), MostFurther)
	}
	taken := map[string]string{address: "the endpoint's address", address6: "the endpoint's address6"}
	for name, at := range hosts {
		taken[at] = "the address of host " + name
	}
	first, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", address)
	}
	for _, another := range further {
		if err := ValidateAddress(another); err != nil {
			return err
		}
		if what, ok := taken[another]; ok {
			return fmt.Errorf("the further virtual IP %s is %s already", another, what)
		}
		if first.Is6() && !strings.Contains(another, ":") {
			return fmt.Errorf("%s is IPv4, and an endpoint with it has an IPv4 address, which %s is not", another, address)
		}
		taken[another] = "listed"
	}
	return nil
}

// validateVirtualRouterID checks a VRRP virtual router id.
func validateVirtualRouterID(id int) error {
	if id < 1 || id > 255 {
		return fmt.Errorf("virtual router id %d is not between 1 and 255", id)
	}
	return nil
}

// interfaceName: the kernel allows up to 15 bytes without white space and slash (dev_valid_name in
// net/core/dev.c); quotes would break configuration files.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}$`)

// ValidateInterface checks the name of a network interface.
func ValidateInterface(name string) error {
	if !interfaceName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a network interface", name)
	}
	return nil
}

// HAProxy's character set for names of proxies and servers (invalid_char in src/tools.c), which
// needs no quoting in a shell.
var haproxyName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}$`)

func validateName(kind, name string) error {
	if !haproxyName.MatchString(name) {
		return fmt.Errorf("%s %q: only letters, digits, underscore, dot, colon and hyphen are allowed, at most 63", kind,
			name)
	}
	return nil
}

// mostHosts limits the hosts of an endpoint.
const mostHosts = 100

// ValidateHosts checks the balancers (name → address) of the virtual IP at address. They are
// written into keepalived's configuration, which requires IP addresses.
func ValidateHosts(address string, hosts map[string]string) error {
	if len(hosts) == 0 {
		return errors.New("an endpoint needs at least one host")
	}
	if len(hosts) > mostHosts {
		return fmt.Errorf("%d hosts are more than the priorities of one virtual router", len(hosts))
	}
	vip, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", address)
	}
	taken := map[netip.Addr]string{}
	for _, name := range names(hosts) {
		if err := validateName("host name", name); err != nil {
			return err
		}
		ip, err := netip.ParseAddr(hosts[name])
		switch other, twice := taken[ip]; {
		case err != nil || host.CheckAddressForm(hosts[name]) != nil:
			return fmt.Errorf("host %s: %w", name, host.CheckAddressForm(hosts[name]))
		case ip == vip:
			return fmt.Errorf("host %s: %s is the endpoint's own address", name, ip)
		case ip.Is4() != vip.Is4():
			return fmt.Errorf("host %s: %s and the endpoint's address %s are of different IP versions", name, ip, vip)
		case twice:
			return fmt.Errorf("hosts %s and %s have the same address %s", other, name, ip)
		}
		taken[ip] = name
	}
	return nil
}
