package endpoint

import (
	"net"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// What a machine says is data: it is parsed into a strict type where it enters, and
// anything else counts as absent.

// programDirs is root's PATH as package host sets it.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// programAt is where a machine has a program, "" where it has none.
func programAt(f host.Facts, name string) string {
	at := f.Commands[name]
	if path.Base(at) == name && slices.Contains(programDirs, path.Dir(at)) && path.Clean(at) == at {
		return at
	}
	return ""
}

// device is the name of a network interface, "" for what is none.
func device(text string) string {
	name, _, _ := strings.Cut(text, "@") // "eth0@if5" is eth0, linked to another one
	if validateInterface(name) != nil {
		return ""
	}
	return name
}

// hardwareAddress is one as `ip` prints it, "unknown" for what is none.
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

// activeState is a unit's, in systemd's words.
func activeState(state host.UnitState) string {
	switch {
	case state.Active == "":
		return "missing"
	case !slices.Contains(activeStates, state.Active):
		return "in an unknown state"
	}
	return state.Active
}

// maxTextLength bounds a text from a machine that is part of a message.
const maxTextLength = 200

// printable is text from a machine for a message: one visible line of bounded length.
func printable(text string) string { return problem.Line(shortened(text)) }

// shortened bounds the length of text from a machine.
func shortened(text string) string {
	if len(text) > maxTextLength {
		return text[:maxTextLength] + "…"
	}
	return text
}
