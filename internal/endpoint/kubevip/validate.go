package kubevip

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

const (
	minLeaseDuration = 5 * time.Second
	maxLeaseDuration = time.Minute
)

var (
	// interfaceForm has the characters of an interface's name that need no quoting anywhere. Linux limits the length.
	interfaceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	programForm   = regexp.MustCompile(`^/[A-Za-z0-9._/+-]{1,250}$`)
	digestForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// holderForm is a name in a Lease: replicas are named so.
	holderForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$`)
)

// ValidateRegistration checks a registration that a machine has recorded, or that follows from the configuration.
func ValidateRegistration(r endpoint.Registration) error {
	address, err := netip.ParseAddr(r.Address)
	if err != nil || r.Address != address.String() || address.Is4In6() || address.Zone() != "" {
		return fmt.Errorf("%q is not an IP address: kube-vip answers for it on its network", r.Address)
	}
	if r.KubeVIP == nil {
		return errors.New("the endpoint does not say how its address is held")
	}
	if err := errors.Join(targets.ValidateAddress(r.Address), targets.Validate(r.Address, r.Hosts),
		endpoint.ValidatePort(r.Port), validateTargets(address, r.Hosts)); err != nil {
		return err
	}
	if r.TargetPort != r.Port {
		return fmt.Errorf("the endpoint has port %d and its API servers %d: with kube-vip, clients reach the API server "+
			"itself, so both are the same", r.Port, r.TargetPort)
	}
	return validateElection(*r.KubeVIP)
}

func validateTargets(address netip.Addr, hosts map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if at, err := netip.ParseAddr(hosts[name]); err == nil && at.Is4() != address.Is4() {
			return fmt.Errorf("target %s has the address %s, which is not of the family of %s", name, at, address)
		}
		if !holderForm.MatchString(name) {
			return fmt.Errorf("target %q: a name that holds a Lease has letters, digits, dots and dashes", name)
		}
	}
	return nil
}

func validateElection(e endpoint.Election) error {
	switch {
	case e.Mode != ARP:
		return fmt.Errorf("mode %q is not %q: for BGP, use the kind bgp", e.Mode, ARP)
	case e.Interface != "" && !interfaceForm.MatchString(e.Interface):
		return fmt.Errorf("%q is not the name of an interface", e.Interface)
	case !programForm.MatchString(e.Program) || path.Clean(e.Program) != e.Program:
		return fmt.Errorf("%q is not the absolute path of a program", e.Program)
	case e.SHA256 != "" && !digestForm.MatchString(e.SHA256):
		return errors.New("the SHA-256 of the program is not 64 hexadecimal digits in lower case")
	case e.LeaseDuration < minLeaseDuration || e.LeaseDuration > maxLeaseDuration || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("lease duration %s is not a number of seconds between %s and %s", e.LeaseDuration,
			minLeaseDuration, maxLeaseDuration)
	}
	return nil
}
