// Package neighbors asks a machine's network who has an address: by ARP, or by neighbor discovery for IPv6.
package neighbors

import (
	_ "embed"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Probe asks for each address in the variable vips, which are separated by spaces. Parse reads its output. A machine
// that has an address does not ask for it.
//
//go:embed probe.sh
var Probe host.Script

// Unknown is a hardware address that is not one of Ethernet.
const Unknown = "unknown"

// Answers is the output of Probe on one machine.
type Answers struct {
	By  map[string]string // IP address → hardware address that has answered for it; nil if none has
	Own []string          // hardware addresses of the machine itself; nil unless it has probed
}

// Parse parses the output of Probe. Lines that are none of it are skipped.
func Parse(text string) Answers {
	var a Answers
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "hardware" {
			a.Own = append(a.Own, hardwareAddress(fields[1]))
			continue
		}
		// The entries were deleted before the probe, so one with an address is an answer.
		address, rest, answered := strings.Cut(line, " dev ")
		_, rest, has := strings.Cut(rest, " lladdr ")
		if !answered || !has || slices.Contains(fields, "FAILED") {
			continue
		}
		if ip, err := netip.ParseAddr(address); err == nil && ip.Zone() == "" {
			if a.By == nil {
				a.By = map[string]string{}
			}
			mac, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			a.By[ip.String()] = hardwareAddress(mac)
		}
	}
	return a
}

// hardwareAddress returns text if it is a hardware address as `ip` prints it, otherwise Unknown.
func hardwareAddress(text string) string {
	address, err := net.ParseMAC(text)
	if err != nil {
		return Unknown
	}
	return address.String()
}

// Stranger returns the hardware address that has answered a for an IP address, unless it is one of all machines', which
// include the one of a. It returns "" if nobody else has the address.
func Stranger(address string, a Answers, all ...Answers) string {
	who := a.By[address]
	for _, each := range all {
		if slices.Contains(each.Own, who) {
			return ""
		}
	}
	return who
}
