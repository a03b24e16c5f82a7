package pki

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// hostNames are the subject alternative names of a certificate, canonical,
// sorted and without duplicates.
type hostNames struct {
	dns       []string
	addresses []string
}

// parseHosts separates host names from addresses and rejects everything else.
func parseHosts(hosts []string) (hostNames, error) {
	var names hostNames
	var addresses []netip.Addr
	for _, host := range hosts {
		address, err := netip.ParseAddr(host)
		if err == nil && address.Zone() == "" {
			addresses = append(addresses, address.Unmap())
			continue
		}
		name, err := parseHostName(host)
		if err != nil {
			return hostNames{}, err
		}
		names.dns = append(names.dns, name)
	}
	slices.Sort(names.dns)
	names.dns = slices.Compact(names.dns)
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, address := range slices.Compact(addresses) {
		names.addresses = append(names.addresses, address.String())
	}
	return names, nil
}

// ValidateHosts checks host names and addresses for a certificate.
func ValidateHosts(hosts ...string) error {
	_, err := parseHosts(hosts)
	return err
}

// parseHostName accepts RFC 1123 names and, as kubeadm does, a wildcard as the first label.
// Names in certificates are compared case-insensitively.
func parseHostName(host string) (string, error) {
	if host == "" {
		return "", errors.New("host name is empty")
	}
	name := strings.ToLower(host)
	labels := strings.Split(strings.TrimPrefix(name, "*."), ".")
	if len(name) > 253 || slices.ContainsFunc(labels, func(l string) bool { return !hostLabel.MatchString(l) }) {
		return "", fmt.Errorf("%q is neither a host name nor an IP address", host)
	}
	// A mistyped address ("10.0.0.300") is a well-formed host name.
	if len(labels) > 1 && strings.Trim(name, "0123456789.") == "" {
		return "", fmt.Errorf("%q looks like an IP address but is none", host)
	}
	return name, nil
}

// all returns every name, host names first.
func (n hostNames) all() []string { return slices.Concat(n.dns, n.addresses) }
