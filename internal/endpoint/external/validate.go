package external

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// maxDetectionTime limits the time that every stop of an API server takes.
const maxDetectionTime = time.Minute

// ValidateAddress checks an IP address or a DNS name.
func ValidateAddress(address string) error {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
			return fmt.Errorf("%q is not an address that other machines can reach", address)
		}
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(address); len(problems) > 0 {
		return fmt.Errorf("%q is neither an IP address nor a DNS name: %s", address, strings.Join(problems, "; "))
	}
	return nil
}

// ValidateRegistration checks a registration that a machine has recorded.
func ValidateRegistration(r endpoint.Registration) error {
	_, probeErr := netip.ParseAddr(r.ProbeFrom)
	if r.ProbeFrom == "" {
		probeErr = nil
	}
	check := HealthCheck{Interval: r.DetectionTime, Threshold: 1}
	return errors.Join(ValidateAddress(r.Address), ValidateTargets(r.Address, r.Hosts), endpoint.ValidatePort(r.Port),
		endpoint.ValidatePort(r.TargetPort), ValidateHealthCheck(check), probeErr)
}

// ValidateTargets checks the machines of the replicas, name → address.
func ValidateTargets(address string, targets map[string]string) error {
	if len(targets) == 0 {
		return errors.New("an external endpoint needs at least one target")
	}
	taken := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		ip, err := netip.ParseAddr(targets[name])
		switch other, twice := taken[ip]; {
		case err != nil:
			return fmt.Errorf("target %s: %q is not an IP address", name, targets[name])
		case ip.String() == address:
			return fmt.Errorf("target %s: %s is the endpoint's own address", name, ip)
		case twice:
			return fmt.Errorf("targets %s and %s have the same address %s", other, name, ip)
		}
		taken[ip] = name
	}
	return nil
}

// ValidateHealthCheck checks the balancer's settings.
func ValidateHealthCheck(h HealthCheck) error {
	switch {
	case h.Interval < 100*time.Millisecond:
		return fmt.Errorf("interval %s is shorter than 100ms", h.Interval)
	case h.Threshold < 1:
		return fmt.Errorf("threshold %d is less than 1", h.Threshold)
	case h.DetectionTime() > maxDetectionTime:
		return fmt.Errorf("the balancer takes %s to find out that a replica is not ready: each stop of an API server takes "+
			"that long, and more than %s is not supported", h.DetectionTime(), maxDetectionTime)
	}
	return nil
}
