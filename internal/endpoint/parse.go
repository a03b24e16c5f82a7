package endpoint

import (
	"net"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// What a machine says is data. It is parsed where it enters into what it can be,
// and what it cannot be counts as not said.

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
	if ValidateInterface(name) != nil {
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
var activeStates = []string{"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "refreshing"}

// activeState is a unit's, in systemd's words.
func activeState(state host.UnitState) string {
	switch {
	case state.Active == "":
		return "not there"
	case !slices.Contains(activeStates, state.Active):
		return "in an unknown state"
	}
	return state.Active
}

// maxTextLength bounds a text of a machine's that stands in a sentence.
const maxTextLength = 200

// printable is text of a machine's for people: one visible line, not at any length.
func printable(text string) string { return problem.Line(shortened(text)) }

// shortened is the beginning of what may be of any length.
func shortened(text string) string {
	if len(text) > maxTextLength {
		return text[:maxTextLength] + "…"
	}
	return text
}
