package component

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
	if err := host.CheckAddress(address); err != nil {
		return fmt.Errorf("replica address, which the API server binds and advertises: %w", err)
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

// ValidateEtcd returns why urls are not the etcd of a new or changed replica: beyond the rules of
// ValidateEtcdURLs, IP addresses are in the form in which addresses are compared.
func ValidateEtcd(urls []string) error {
	if err := ValidateEtcdURLs(urls); err != nil {
		return err
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(u.Host, "[") {
			if _, err := netip.ParseAddr(u.Hostname()); err != nil {
				continue // a name
			}
		}
		if err := host.CheckAddressForm(u.Hostname()); err != nil {
			return fmt.Errorf("etcd URL %q: %w", text, err)
		}
	}
	return nil
}
