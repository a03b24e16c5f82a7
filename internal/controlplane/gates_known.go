package controlplane

import (
	"fmt"
	"strconv"
	"strings"
)

const gatesFlag = "feature-gates"

// gate is one entry of --feature-gates.
type gate struct {
	name string
	on   bool
}

// parseGates reads --feature-gates as k8s.io/component-base does: entries
// [COMPONENT:]NAME=BOOL, separated by commas. Those of components other than
// Kubernetes itself ("kube") are left out.
func parseGates(value string) ([]gate, error) {
	var gates []gate
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		owner, rest, prefixed := strings.Cut(entry, ":")
		if !prefixed {
			owner, rest = "kube", entry
		}
		name, text, _ := strings.Cut(rest, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("malformed feature gate %q: write NAME=true or NAME=false", entry)
		}
		if owner == "kube" {
			gates = append(gates, gate{strings.TrimSpace(name), on})
		}
	}
	return gates, nil
}

// validateGates refuses feature gates with which a release does not start: one
// it does not know ("unrecognized feature gate"), and one that is locked to the
// other value. Beside --emulated-version, what is locked is decided by the
// version emulated, and not judged here.
func (e edition) validateGates(args map[string]string) []error {
	gates, err := parseGates(args[gatesFlag])
	if err != nil {
		return nil // said by validateFlag, for every version
	}
	_, emulates := args["emulated-version"]
	var refused []error
	for _, g := range gates {
		if err := e.validateGate(g, emulates); err != nil {
			refused = append(refused, err)
		}
	}
	return refused
}

func (e edition) validateGate(g gate, emulates bool) error {
	h := find(gateHistory, e.component, g.name)
	if h == nil {
		return e.unknownName("feature gate", g.name, gateHistory)
	}
	switch what, since := h.at(e.minor); {
	case what == unknown && e.later:
		return nil // gates that switch a fix off come with patch releases
	case what == unknown:
		return e.notYet("feature gate", g.name, h.from())
	case what == gone:
		return e.goneGate(g, h, since)
	case (what == lockedOn && !g.on || what == lockedOff && g.on) && !emulates:
		return fmt.Errorf("feature gate %q: it is %s and cannot be changed; drop it from %s", g.name, lockedSince(what, since), gatesFlag)
	default:
		return nil
	}
}

// goneGate refuses a gate that was removed. One that could still be switched in
// the minor before was there for a while only, and may be back in a patch
// release that was not read.
func (e edition) goneGate(g gate, h history, since int) error {
	before, locked := h.at(since - 1)
	switch {
	case before == lockedOn || before == lockedOff:
		return fmt.Errorf("feature gate %q: Kubernetes 1.%d removed it, what it switched is %s; drop it from %s", g.name, since, lockedSince(before, locked), gatesFlag)
	case e.later:
		return nil
	default:
		return fmt.Errorf("feature gate %q: Kubernetes 1.%d removed it, what it switched cannot be switched any more; drop it from %s", g.name, since, gatesFlag)
	}
}

// lockedSince says what a locked gate stands for: "always on since 1.34".
func lockedSince(what state, since int) string {
	text := "always on"
	if what == lockedOff {
		text = "always off"
	}
	if since == oldestMinor {
		return fmt.Sprintf("%s since 1.%d or before", text, since)
	}
	return fmt.Sprintf("%s since 1.%d", text, since)
}
