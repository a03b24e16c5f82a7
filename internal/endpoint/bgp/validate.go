package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

const (
	maxPeers = 16
	maxHops  = 255
	// transASN stands for a number that a session without four octets cannot contain (RFC 6793).
	transASN = 23456
	lastASN  = 4294967295 // reserved (RFC 7300)

	minHoldTime    = 3 * time.Second // RFC 4271
	maxHoldTime    = 3 * time.Minute
	minBFDInterval = 50 * time.Millisecond
	maxBFDInterval = 10 * time.Second
	maxPropagation = time.Minute
)

var (
	passwordName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	// passwordForm leaves out what ends or escapes a string in bird's configuration. Linux limits the
	// length (TCP_MD5SIG_MAXKEYLEN).
	passwordForm = regexp.MustCompile(`^[A-Za-z0-9!#$%&()*+,./:;<=>?@^_{|}~-]{1,80}$`)
)

// ValidateRegistration checks a registration that a machine has recorded, or that follows from the
// configuration.
func ValidateRegistration(r endpoint.Registration) error {
	address, err := netip.ParseAddr(r.Address)
	if err != nil || r.Address != address.Unmap().String() {
		return fmt.Errorf("%q is not an IP address: BGP announces addresses, not names", r.Address)
	}
	if r.BGP == nil {
		return errors.New("the endpoint has neither an ASN nor peers")
	}
	if err := errors.Join(targets.ValidateAddress(r.Address), targets.Validate(r.Address, r.Hosts),
		endpoint.ValidatePort(r.Port), validateFamilies(address, r.Hosts)); err != nil {
		return err
	}
	if r.TargetPort != r.Port {
		return fmt.Errorf("the endpoint has port %d and its API servers %d: with BGP, clients reach the API server itself, "+
			"so both are the same", r.Port, r.TargetPort)
	}
	return ValidateAnnouncement(address, r.Hosts, *r.BGP)
}

// ValidateAnnouncement checks how the machines of an endpoint announce its address.
func ValidateAnnouncement(address netip.Addr, hosts map[string]string, a endpoint.Announcement) error {
	return errors.Join(ValidateASN(a.ASN), validateTimes(a), ValidatePeers(address, hosts, a.Peers))
}

// validateFamilies checks that all addresses are IPv4, or all are IPv6: a session announces addresses
// of its own family.
func validateFamilies(address netip.Addr, hosts map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if at, err := netip.ParseAddr(hosts[name]); err == nil && at.Unmap().Is4() != address.Is4() {
			return fmt.Errorf("target %s has the address %s, which is not of the same family as %s", name, at, address)
		}
	}
	return nil
}

// ValidateASN checks the number of an autonomous system.
func ValidateASN(asn uint32) error {
	if asn == 0 || asn == transASN || asn == 65535 || asn == lastASN {
		return fmt.Errorf("%d is not the number of an autonomous system: it is reserved", asn)
	}
	return nil
}

// ValidatePeers checks the routers of an endpoint.
func ValidatePeers(address netip.Addr, hosts map[string]string, peers []endpoint.Peer) error {
	if len(peers) == 0 || len(peers) > maxPeers {
		return fmt.Errorf("the endpoint has %d peers, and needs between 1 and %d", len(peers), maxPeers)
	}
	seen := map[netip.Addr]bool{}
	for _, p := range peers {
		at, err := netip.ParseAddr(p.Address)
		switch {
		case err != nil || p.Address != at.Unmap().String():
			return fmt.Errorf("peer %q is not an IP address", p.Address)
		case at.Is4() != address.Is4():
			return fmt.Errorf("peer %s is not of the same family as %s", at, address)
		case at == address:
			return fmt.Errorf("peer %s is the endpoint itself", at)
		case seen[at]:
			return fmt.Errorf("peer %s is there twice", at)
		case p.Multihop < 0 || p.Multihop > maxHops:
			return fmt.Errorf("peer %s: %d hops are not between 0 and %d", at, p.Multihop, maxHops)
		case p.Password != "" && !passwordName.MatchString(p.Password):
			return fmt.Errorf("peer %s: %q is not the name of a password: small letters, digits, - and _", at, p.Password)
		}
		for name, machine := range hosts {
			if own, err := netip.ParseAddr(machine); err == nil && own == at {
				return fmt.Errorf("peer %s is the machine of target %s", at, name)
			}
		}
		if err := errors.Join(targets.ValidateAddress(p.Address), ValidateASN(p.ASN), validateTargets(p, hosts)); err != nil {
			return fmt.Errorf("peer %s: %w", at, err)
		}
		seen[at] = true
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if len((endpoint.Announcement{Peers: peers}).PeersOf(name)) == 0 {
			return fmt.Errorf("target %s has no peer: each peer is limited to other targets", name)
		}
	}
	return nil
}

// validateTargets checks the targets of one peer.
func validateTargets(p endpoint.Peer, hosts map[string]string) error {
	if !slices.IsSorted(p.Targets) || len(slices.Compact(slices.Clone(p.Targets))) < len(p.Targets) {
		return errors.New("its targets are not sorted, or one is there twice")
	}
	for _, name := range p.Targets {
		if hosts[name] == "" {
			return fmt.Errorf("%q is none of the endpoint's targets", name)
		}
	}
	return nil
}

func validateTimes(a endpoint.Announcement) error {
	switch {
	case a.HoldTime < minHoldTime || a.HoldTime > maxHoldTime || a.HoldTime%time.Second != 0:
		return fmt.Errorf("hold time %s is not a number of seconds between %s and %s", a.HoldTime, minHoldTime, maxHoldTime)
	case a.BFDInterval < minBFDInterval || a.BFDInterval > maxBFDInterval || a.BFDInterval%time.Millisecond != 0:
		return fmt.Errorf("BFD interval %s is not a number of milliseconds between %s and %s", a.BFDInterval, minBFDInterval,
			maxBFDInterval)
	case a.Propagation < 0 || a.Propagation > maxPropagation:
		return fmt.Errorf("propagation time %s is not between 0s and %s", a.Propagation, maxPropagation)
	}
	return nil
}

// ValidatePassword checks the password of a session. The error does not contain it.
func ValidatePassword(password string) error {
	if !passwordForm.MatchString(password) {
		return errors.New("the password is not 1 to 80 letters, digits and punctuation without quotes, backslashes, " +
			"brackets and spaces")
	}
	return nil
}
