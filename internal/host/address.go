package host

import (
	"fmt"
	"net/netip"
)

// CheckAddressForm returns why text is not an IP address in the form that addresses are compared and
// stored in: RFC 5952 without a zone, and dotted decimal for IPv4. One address then has one text in
// configurations, records, certificates and URLs.
func CheckAddressForm(text string) error {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an IP address", text)
	case address.Zone() != "":
		return fmt.Errorf("%q has a zone, which means something on one machine only", text)
	case address.Unmap().String() != text:
		return fmt.Errorf("%q is not in canonical form: use %q", text, address.Unmap())
	}
	return nil
}

// CheckAddress returns why text is not an address, in that form, at which other machines reach one.
func CheckAddress(text string) error {
	address, err := netip.ParseAddr(text)
	if err == nil && (address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() ||
		address.Is6() && address.IsLinkLocalUnicast()) {
		return fmt.Errorf("%q cannot be reached from other machines", text)
	}
	return CheckAddressForm(text)
}
