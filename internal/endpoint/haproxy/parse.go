package haproxy

import (
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The output of a machine is data: it is parsed into a strict type here, and anything that does
// not parse counts as absent.

// device returns text if it is the name of a network interface, otherwise "".
func device(text string) string {
	name, _, _ := strings.Cut(text, "@") // "eth0@if5" is eth0, linked to another one
	if ValidateInterface(name) != nil {
		return ""
	}
	return name
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
