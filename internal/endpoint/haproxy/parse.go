package haproxy

import (
	"net"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The output of a machine is data: it is parsed into a strict type here, and anything that does
// not parse counts as absent.

// programDirs is root's PATH as package host sets it.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// programAt returns the path of a program on a machine, or "".
func programAt(f host.Facts, name string) string {
	at := f.Commands[name]
	if path.Base(at) == name && slices.Contains(programDirs, path.Dir(at)) && path.Clean(at) == at {
		return at
	}
	return ""
}

// device returns text if it is the name of a network interface, otherwise "".
func device(text string) string {
	name, _, _ := strings.Cut(text, "@") // "eth0@if5" is eth0, linked to another one
	if validateInterface(name) != nil {
		return ""
	}
	return name
}

// hardwareAddress returns text if it is a hardware address as `ip` prints it, otherwise
// "unknown".
func hardwareAddress(text string) string {
	address, err := net.ParseMAC(text)
	if err != nil {
		return "unknown"
	}
	return address.String()
}

// activeStates are systemd's (`systemctl --state=help`).
var activeStates = []string{
	"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance",
	"refreshing",
}

// activeState returns the state of a unit for a message.
func activeState(state host.UnitState) string {
	switch {
	case state.Active == "":
		return "missing"
	case !slices.Contains(activeStates, state.Active):
		return "in an unknown state"
	}
	return state.Active
}

// maxTextLength limits text from a machine in a message.
const maxTextLength = 200

// printable returns text from a machine for a message: one visible line of limited length.
func printable(text string) string { return problem.Line(shortened(text)) }

// shortened limits the length of text from a machine.
func shortened(text string) string {
	if len(text) > maxTextLength {
		return text[:maxTextLength] + "…"
	}
	return text
}
