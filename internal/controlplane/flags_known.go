package controlplane

import (
	"fmt"
	"maps"
	"slices"
)

// removedFlag is what to do about a flag that a release has removed: one line
// for each that the table of releases calls gone.
type removedFlag struct {
	component, name string
	instead         string // what to write, or why nothing is needed
}

// removedFlags are from the section "Deprecation" and "Other" of the release
// notes (CHANGELOG-1.X.md); between 1.32 and 1.36 no other flag of the three was
// removed or renamed.
var removedFlags = []removedFlag{
	{APIServer, "cloud-provider", "drop it: cloud providers are external since 1.31, and only controller managers and kubelets are told so"},
	{APIServer, "cloud-config", "drop it: cloud providers are external since 1.31, and read their own configuration"},
}

// hiddenMetricsFlag has to change with each minor (k8s.io/component-base/metrics,
// validateShowHiddenMetricsVersion).
const hiddenMetricsFlag = "show-hidden-metrics-for-version"

func (e edition) previous() string { return fmt.Sprintf("1.%d", e.minor-1) }

// validateKnown refuses the flags that a release does not have, and what it
// does not accept in --feature-gates. All of them are named at once, because
// an upgrade may have to deal with several.
func (e edition) validateKnown(args map[string]string) []error {
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := e.validateKnownFlag(name); err != nil {
			refused = append(refused, err)
		}
	}
	if shown, ok := args[hiddenMetricsFlag]; ok && shown != e.previous() {
		refused = append(refused, fmt.Errorf("flag %q: %s accepts the minor before its own only; write %q, or drop it", hiddenMetricsFlag, e, e.previous()))
	}
	return append(refused, e.validateGates(args)...)
}

func (e edition) validateKnownFlag(name string) error {
	h := find(flagHistory, e.component, name)
	if h == nil {
		return e.unknownName("flag", name, flagHistory)
	}
	switch what, since := h.at(e.minor); what {
	case unknown:
		return e.notYet("flag", name, h.from())
	case gone:
		return fmt.Errorf("flag %q: Kubernetes 1.%d removed it from %s; %s", name, since, e.component, insteadOf(e.component, name))
	default:
		return nil
	}
}

func insteadOf(component, name string) string {
	for _, r := range removedFlags {
		if r.component == component && r.name == name {
			return r.instead
		}
	}
	return "drop it"
}
