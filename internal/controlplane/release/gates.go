package release

import (
	"fmt"
	"strconv"
	"strings"
)

// FeatureGates is the name of the flag that sets feature gates.
const FeatureGates = "feature-gates"

// Gate is one entry of --feature-gates.
type Gate struct {
	Name string
	On   bool
}

// ParseGates parses --feature-gates as k8s.io/component-base does: entries
// [COMPONENT:]NAME=BOOL, separated by commas. Entries for components other than Kubernetes
// itself ("kube") are skipped.
func ParseGates(value string) ([]Gate, error) {
	var gates []Gate
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
			gates = append(gates, Gate{strings.TrimSpace(name), on})
		}
	}
	return gates, nil
}

// validateGates rejects feature gates that prevent a component from starting: unknown gates
// ("unrecognized feature gate"), and gates that are locked to the other value. With
// --emulated-version, the emulated version decides what is locked; that is not checked here.
func (t target) validateGates(args map[string]string) []error {
	gates, err := ParseGates(args[FeatureGates])
	if err != nil {
		return nil // reported by validateFlag, for every version
	}
	_, emulates := args["emulated-version"]
	var refused []error
	for _, g := range gates {
		if err := t.validateGate(g, emulates); err != nil {
			refused = append(refused, err)
		}
	}
	return refused
}

func (t target) validateGate(g Gate, emulates bool) error {
	h := find(gateHistory, t.component, g.Name)
	if h == nil {
		return t.unknownName("feature gate", g.Name, gateHistory)
	}
	switch what, since := h.at(t.minor); {
	case what == unknown && t.later:
		return nil // patch releases add gates that disable a fix
	case what == unknown:
		return t.notYet("feature gate", g.Name, h.from())
	case what == gone:
		return t.goneGate(g, h, since)
	case (what == lockedOn && !g.On || what == lockedOff && g.On) && !emulates:
		return fmt.Errorf("feature gate %q: it is %s and cannot be changed; drop it from %s",
			g.Name, lockedSince(what, since), FeatureGates)
	default:
		return nil
	}
}

// goneGate returns the error for a gate that was removed. A gate that could still be changed in
// the previous minor was temporary, and may return in a later patch release.
func (t target) goneGate(g Gate, h history, since int) error {
	before, locked := h.at(since - 1)
	switch {
	case before == lockedOn || before == lockedOff:
		return fmt.Errorf("feature gate %q: Kubernetes 1.%d removed it, what it switched is %s; drop it from %s",
			g.Name, since, lockedSince(before, locked), FeatureGates)
	case t.later:
		return nil
	default:
		return fmt.Errorf("feature gate %q: Kubernetes 1.%d removed it, what it switched cannot be switched any more; "+
			"drop it from %s", g.Name, since, FeatureGates)
	}
}

// lockedSince describes a locked gate: "always on since 1.34".
func lockedSince(what state, since int) string {
	text := "always on"
	if what == lockedOff {
		text = "always off"
	}
	if since == OldestMinor {
		return fmt.Sprintf("%s since 1.%d or before", text, since)
	}
	return fmt.Sprintf("%s since 1.%d", text, since)
}
