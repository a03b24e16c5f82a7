package component

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

var dnsLabels = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// ValidateName returns why name is not a valid replica name. It becomes the node's name in the
// serving certificate, so it follows Kubernetes' rule for node names (RFC 1123, 253
// characters).
func ValidateName(name string) error {
	if len(name) > 253 || !dnsLabels.MatchString(name) {
		return fmt.Errorf("malformed replica name %q: lower-case letters, digits, dashes and dots, at most 253 characters",
			name)
	}
	return nil
}

// ValidateDomain returns why domain is not a valid DNS domain for the cluster.
func ValidateDomain(domain string) error {
	if len(domain) > 253 || !dnsLabels.MatchString(domain) {
		return fmt.Errorf("malformed cluster domain %q: DNS labels of lower-case letters, digits and dashes, such as %s",
			domain, DefaultClusterDomain)
	}
	return nil
}

// ValidateAddress returns why address is not a valid replica address. The API server binds and
// advertises it, so it must be an IP address of that machine.
func ValidateAddress(address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("replica address %q is not an IP address: the API server binds and advertises it", address)
	}
	if ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() {
		return fmt.Errorf("replica address %s cannot be reached by other machines", address)
	}
	return nil
}

// ValidatePort returns why an API server cannot listen on port. Its unprivileged user may not
// bind ports below 1024, and some ports belong to the other components.
func ValidatePort(port int) error {
	switch {
	case port < 1024 || port > 65535:
		return fmt.Errorf("port %d is not between 1024 and 65535", port)
	case port == controllerManagerPort || port == schedulerPort:
		return fmt.Errorf("port %d is controller-manager's or scheduler's", port)
	}
	return nil
}

// ValidateCIDRs returns why the Service and Pod ranges are invalid. Services need one range, or
// one of each family. Pods need no range, or the same families as Services.
func ValidateCIDRs(services, pods []string) error {
	if len(services) == 0 {
		return errors.New("no service range: one is needed")
	}
	s, err := parseRanges("service", services)
	if err != nil {
		return err
	}
	p, err := parseRanges("pod", pods)
	if err != nil {
		return err
	}
	for _, service := range s {
		if err := validateServiceSize(service); err != nil {
			return err
		}
		for _, pod := range p {
			if service.Overlaps(pod) {
				return fmt.Errorf("service range %s overlaps pod range %s", service, pod)
			}
		}
	}
	if len(p) > 0 && len(s) == 1 && len(p) == 1 && s[0].Addr().Is4() != p[0].Addr().Is4() {
		return fmt.Errorf("service range %s and pod range %s are of different IP families", s[0], p[0])
	}
	return nil
}

func parseRanges(kind string, cidrs []string) ([]netip.Prefix, error) {
	if len(cidrs) > 2 {
		return nil, fmt.Errorf("%d %s ranges: at most two, one of each IP family", len(cidrs), kind)
	}
	var out []netip.Prefix
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("malformed %s range %q: want ADDRESS/BITS", kind, cidr)
		}
		if masked := prefix.Masked(); masked != prefix {
			return nil, fmt.Errorf("%s range %s has host bits set: did you mean %s?", kind, cidr, masked)
		}
		out = append(out, prefix)
	}
	if len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("%s ranges %s and %s are of the same IP family: dual stack needs one of each",
			kind, out[0], out[1])
	}
	return out, nil
}

// validateServiceSize follows the API server's own check
// (cmd/kube-apiserver/app/options/validation.go): at most 20 bits of an IPv4 range, and at
// least the eight addresses that the first Services need.
func validateServiceSize(service netip.Prefix) error {
	bits := service.Addr().BitLen() - service.Bits()
	if bits < 3 {
		return fmt.Errorf("service range %s is too small: at least 8 addresses", service)
	}
	if service.Addr().Is4() && bits > 20 {
		return fmt.Errorf("service range %s is too large: the API server takes at most 20 bits, a /12", service)
	}
	return nil
}

// ValidateEtcdURLs returns why an API server cannot use urls.
func ValidateEtcdURLs(urls []string) error {
	if len(urls) == 0 {
		return errors.New("no etcd URL: at least one is needed")
	}
	seen := map[string]bool{}
	for _, text := range urls {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil ||
			strings.ContainsAny(text, ", "):
			return fmt.Errorf("malformed etcd URL %q: want https://HOST:PORT", text)
		case u.Scheme != "https":
			return fmt.Errorf("etcd URL %q is not https: the API server shows its client certificate there", text)
		case u.Port() == "":
			return fmt.Errorf("etcd URL %q names no port: etcd's clients use 2379", text)
		case seen[text]:
			return fmt.Errorf("etcd URL %q is given twice", text)
		}
		seen[text] = true
	}
	return nil
}
