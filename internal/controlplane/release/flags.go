package release

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// removedFlag describes what to do about a flag that a release has removed. Each flag that the
// table marks as gone has one.
type removedFlag struct {
	component, name string
	instead         string // the replacement, or why nothing is needed
}

// removedFlags are taken from the sections "Deprecation" and "Other" of the release notes
// (CHANGELOG-1.X.md). Between 1.32 and 1.37 no other flag of the three components was removed
// or renamed.
var removedFlags = []removedFlag{
	{
		APIServer, "cloud-provider",
		"drop it: cloud providers are external since 1.31, and only controller managers and kubelets are told so",
	},
	{APIServer, "cloud-config", "drop it: cloud providers are external since 1.31, and read their own configuration"},
	{ControllerManager, "concurrent-service-syncs", "drop it: it has had no effect since 1.31"},
}

// hiddenMetricsFlag must change with each minor (k8s.io/component-base/metrics,
// validateShowHiddenMetricsVersion).
const hiddenMetricsFlag = "show-hidden-metrics-for-version"

func (t target) previous() string { return fmt.Sprintf("1.%d", t.minor-1) }

// ValidateFlags rejects what a release of a component does not accept: flags that it has
// removed, locked or does not have yet, and the same in --feature-gates. One error names all of
// them, because an upgrade may have to deal with several. An invalid version is not rejected
// here: ValidateVersion reports it.
func ValidateFlags(component, version string, args map[string]string) error {
	if ValidateVersion(version) != nil {
		return nil
	}
	t, err := targetOf(component, version)
	if err != nil {
		return err
	}
	return errors.Join(t.validateKnown(args)...)
}

func (t target) validateKnown(args map[string]string) []error {
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := t.validateKnownFlag(name); err != nil {
			refused = append(refused, err)
		}
	}
	if shown, ok := args[hiddenMetricsFlag]; ok && shown != t.previous() {
		refused = append(refused, fmt.Errorf("flag %q: %s accepts the minor before its own only; write %q, or drop it",
			hiddenMetricsFlag, t, t.previous()))
	}
	return append(refused, t.validateGates(args)...)
}

func (t target) validateKnownFlag(name string) error {
	h := find(flagHistory, t.component, name)
	if h == nil {
		return t.unknownName("flag", name, flagHistory)
	}
	switch what, since := h.at(t.minor); what {
	case unknown:
		return t.notYet("flag", name, h.from())
	case gone:
		return fmt.Errorf("flag %q: Kubernetes 1.%d removed it from %s; %s",
			name, since, t.component, insteadOf(t.component, name))
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
