package component

import "fmt"

// ValidateMetricsAddress accepts the addresses that stand for all of a machine. One address of its
// own is none of them: the provider and the probes ask at 127.0.0.1.
func ValidateMetricsAddress(address string) error {
	if address != "0.0.0.0" && address != "::" {
		return fmt.Errorf("address %q: it must be 0.0.0.0, or :: for IPv6 and IPv4", address)
	}
	return nil
}
