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
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
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
	// leaseForm is the name of an object (RFC 1123).
	leaseForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
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
	if err := validateElection(*r.KubeVIP); err != nil {
		return err
	}
	return validateMode(address, r)
}

// validateMode checks the arguments that only one of the modes has.
func validateMode(address netip.Addr, r endpoint.Registration) error {
	switch {
	case !announces(r) && r.BGP != nil:
		return fmt.Errorf("asn, peers, hold_time and propagation_time are for the mode %q", BGP)
	case !announces(r):
		return nil
	case r.BGP == nil:
		return errors.New("the endpoint has neither an ASN nor peers")
	case r.KubeVIP.Interface != "":
		return fmt.Errorf("interface is for the mode %q: with BGP, the address is on the loopback interface", ARP)
	}
	if err := bgp.ValidateAnnouncement(address, r.Hosts, *r.BGP); err != nil {
		return err
	}
	return validatePeers(*r.BGP)
}

// validatePeers refuses what kube-vip does not do properly. It has no filters: what it learns from a router of one
// autonomous system, it announces to those of another. Between routers of the same one, BGP itself prevents that:
// nobody accepts a path with its own number, and a speaker does not pass on what it has learned inside its own.
func validatePeers(a endpoint.Announcement) error {
	for _, p := range a.Peers {
		switch {
		case p.ASN != a.Peers[0].ASN:
			return fmt.Errorf("peers %s and %s are of different autonomous systems: kube-vip has no filters, and would "+
				"announce the routes of one to the other; use the kind bgp", a.Peers[0].Address, p.Address)
		case p.BFD:
			return fmt.Errorf("peer %s: BFD of kube-vip ends sessions that work, and they are not established again "+
				"soon; leave out bfd, or use the kind bgp", p.Address)
		}
	}
	return nil
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
	case e.Mode != ARP && e.Mode != BGP:
		return fmt.Errorf("mode %q is neither %q nor %q", e.Mode, ARP, BGP)
	case e.Interface != "" && !interfaceForm.MatchString(e.Interface):
		return fmt.Errorf("%q is not the name of an interface", e.Interface)
	case !programForm.MatchString(e.Program) || path.Clean(e.Program) != e.Program:
		return fmt.Errorf("%q is not the absolute path of a program", e.Program)
	case e.SHA256 != "" && !digestForm.MatchString(e.SHA256):
		return errors.New("the SHA-256 of the program is not 64 hexadecimal digits in lower case")
	case e.LeaseName != "" && (e.Mode == BGP || !leaseForm.MatchString(e.LeaseName)):
		return fmt.Errorf("%q is not the name of a Lease, or the mode has none", e.LeaseName)
	case e.LeaseDuration < minLeaseDuration || e.LeaseDuration > maxLeaseDuration || e.LeaseDuration%time.Second != 0:
		return fmt.Errorf("lease duration %s is not a number of seconds between %s and %s", e.LeaseDuration,
			minLeaseDuration, maxLeaseDuration)
	}
	return nil
}
