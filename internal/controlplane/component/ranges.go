package component

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

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
	if len(s) == 1 && len(p) == 1 && s[0].Addr().Is4() != p[0].Addr().Is4() {
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
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%s range %s is IPv4 in the form of IPv6: write the IPv4 range", kind, cidr)
		}
		if prefix.String() != cidr {
			return nil, fmt.Errorf("%s range %q is not in canonical form: use %q", kind, cidr, prefix)
		}
		out = append(out, prefix)
	}
	if len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("%s ranges %s and %s are of the same IP family: dual stack needs one of each",
			kind, out[0], out[1])
	}
	return out, nil
}

// validateServiceSize follows kubeadm, and the API server up to 1.33
// (cmd/kube-apiserver/app/options/validation.go): at most 20 bits of a range of either family, and at
// least the eight addresses that the first Services need.
func validateServiceSize(service netip.Prefix) error {
	const most = 20
	bits := service.Addr().BitLen() - service.Bits()
	if bits < 3 {
		return fmt.Errorf("service range %s is too small: at least 8 addresses", service)
	}
	if bits > most {
		return fmt.Errorf("service range %s is too large: at most %d bits for addresses, a /%d", service, most,
			service.Addr().BitLen()-most)
	}
	return nil
}

// ValidateNetwork returns why the components cannot use valid ranges on a machine with that address.
// extra are the user's flags by component, which may override what the rules are about.
func ValidateNetwork(address string, services, pods []string, extra map[string]map[string]string) error {
	if err := validateFamily(address, services); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := validateNodeMask(pod, len(pods) == 2, extra[release.ControllerManager]); err != nil {
			return err
		}
	}
	return nil
}

// validateFamily follows the API server's validatePublicIPServiceClusterIPRangeIPFamilies: the Service
// "kubernetes" has one family, that of the first range, and its endpoints are the addresses that the
// API servers advertise.
func validateFamily(address string, services []string) error {
	if len(services) == 0 {
		return nil
	}
	own, err := netip.ParseAddr(address)
	service, serviceErr := netip.ParsePrefix(services[0])
	if err != nil || serviceErr != nil || own.Unmap().Is4() == service.Addr().Is4() {
		return nil // the address and the ranges have rules of their own
	}
	family, example := "IPv4", "10.96.0.0/12"
	if own.Is6() {
		family, example = "IPv6", "fd00:10:96::/112"
	}
	return fmt.Errorf("%s is %s, and the first service range %s is not: the API server advertises its address for the "+
		"Service kubernetes, which has an address from the first range. Put an %s range first in service_cidrs, such as %s",
		own, family, service, family, example)
}

// Defaults and a limit of kube-controller-manager (cmd/kube-controller-manager/app/core.go,
// clusterSubnetMaxDiff of pkg/controller/nodeipam/ipam/cidrset).
const (
	nodeMask4, nodeMask6 = 24, 64
	mostNodeBits         = 16
)

// validateNodeMask follows kube-controller-manager, which gives each Node a part of the range, and can
// count a limited number of parts of an IPv6 range.
func validateNodeMask(pod string, dual bool, extra map[string]string) error {
	prefix, err := netip.ParsePrefix(pod)
	if err != nil || extra["allocate-node-cidrs"] == "false" {
		return nil
	}
	mask, flag := nodeMask4, "node-cidr-mask-size-ipv4"
	if prefix.Addr().Is6() {
		mask, flag = nodeMask6, "node-cidr-mask-size-ipv6"
	}
	if text := extra["node-cidr-mask-size"]; text != "" && !dual {
		flag = "node-cidr-mask-size"
	}
	if size, err := strconv.Atoi(extra[flag]); err == nil && size != 0 { // 0 is the default
		mask = size
	}
	switch {
	case mask < prefix.Bits():
		return fmt.Errorf("pod range %s is smaller than the /%d that each Node gets from it: use a larger range, or set "+
			"%s of kube-controller-manager in extra_args", prefix, mask, flag)
	case prefix.Addr().Is6() && mask-prefix.Bits() > mostNodeBits:
		return fmt.Errorf("pod range %s is too large for a /%d for each Node: at most a /%d, or set %s of "+
			"kube-controller-manager in extra_args", prefix, mask, mask-mostNodeBits, flag)
	}
	return nil
}
