package targets

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ValidateAddress checks an IP address or a DNS name.
func ValidateAddress(address string) error {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
			return fmt.Errorf("%q is not an address that other machines can reach", address)
		}
		return host.CheckAddressForm(address)
	}
	if problems := validation.IsDNS1123Subdomain(address); len(problems) > 0 {
		return fmt.Errorf("%q is neither an IP address nor a DNS name: %s", address, strings.Join(problems, "; "))
	}
	return nil
}

// Validate checks the machines of the replicas, name → address.
func Validate(address string, targets map[string]string) error {
	if len(targets) == 0 {
		return errors.New("the endpoint needs at least one target")
	}
	taken := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		ip, err := netip.ParseAddr(targets[name])
		switch other, twice := taken[ip]; {
		case err != nil || host.CheckAddressForm(targets[name]) != nil:
			return fmt.Errorf("target %s: %w", name, host.CheckAddressForm(targets[name]))
		case ip.String() == address:
			return fmt.Errorf("target %s: %s is the endpoint's own address", name, ip)
		case twice:
			return fmt.Errorf("targets %s and %s have the same address %s", other, name, ip)
		}
		taken[ip] = name
	}
	return nil
}
