package release

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Flags whose values depend on the release.
const (
	GatesFlag       = "feature-gates"
	MetricsURLsFlag = "listen-metrics-urls"
	QuotaFlag       = "quota-backend-bytes"
	ProgressFlag    = "watch-progress-notify-interval"
	corruptGate     = "InitialCorruptCheck"
	CorruptFlag     = "experimental-initial-corrupt-check" // its name before 3.6, and until 3.7
)

// knownFlags returns the flags that a minor version accepts.
func knownFlags(minor int) []string {
	names := slices.Clone(everyMinor)
	if minor >= 6 {
		names = append(names, since6...)
	}
	for _, r := range removals {
		if minor >= r.first && minor < r.until {
			names = append(names, r.flag)
		}
	}
	return names
}

// ValidateKnown refuses arguments that the server of a version would not start with. It
// reports all of them at once: when coming from 3.5, several flags may have to change.
func ValidateKnown(version string, args map[string]string) []error {
	minor, patch, err := Parse(version)
	if err != nil {
		return []error{err}
	}
	_, read, err := Parse(ReadFrom[minor])
	if err != nil {
		return []error{err}
	}
	known := knownFlags(minor)
	var refused []error
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		err := validateRenamed(minor, flag, args)
		if err == nil && !slices.Contains(known, flag) {
			err = unknownFlag(minor, flag, known, patch > read)
		}
		if err == nil && flag == "v2-deprecation" && minor >= 6 && args[flag] == "not-yet" {
			err = fmt.Errorf(`extra argument "v2-deprecation": etcd 3.%d no longer accepts the value "not-yet": %s`, minor, noV2)
		}
		if err != nil {
			refused = append(refused, err)
		}
	}
	return append(refused, validateGates(minor, patch > read, args[GatesFlag])...)
}

// unknownFlag refuses a flag that a minor version does not accept and never did. later
// means a patch release after the one that the table was read from, which may have added
// the flag; then only a flag that looks like a misspelling is refused. A vendor's own
// build has the version of the release it was made from, and is treated as that release.
func unknownFlag(minor int, flag string, known []string, later bool) error {
	if slices.Contains(since6, flag) {
		for _, r := range removals {
			if r.instead == flag && r.first <= minor {
				return fmt.Errorf("extra argument %q: etcd 3.%d names this flag %q", flag, minor, r.flag)
			}
		}
		return fmt.Errorf("extra argument %q: unknown to etcd 3.%d, added in 3.6; remove it until version is 3.6", flag,
			minor)
	}
	if meant := problem.Nearest(flag, known); meant != "" {
		return fmt.Errorf("extra argument %q: unknown to etcd 3.%d; did you mean %q?", flag, minor, meant)
	}
	if slices.ContainsFunc(removals, func(r removed) bool { return r.flag == flag }) || !later {
		return fmt.Errorf("extra argument %q: unknown to etcd 3.%d; remove it", flag, minor)
	}
	return nil
}

// validateRenamed refuses a flag that a minor version has removed, and a flag with two
// names if the other one is set too: etcd 3.6 does not start then ("cannot set … and … at
// the same time").
func validateRenamed(minor int, flag string, args map[string]string) error {
	i := slices.IndexFunc(removals, func(r removed) bool { return r.flag == flag })
	if i < 0 {
		return nil
	}
	r := removals[i]
	switch {
	case minor >= r.until && r.note != "":
		return fmt.Errorf("extra argument %q: removed in etcd 3.%d: %s", flag, r.until, r.note)
	case minor >= r.until:
		return fmt.Errorf("extra argument %q: removed in etcd 3.%d, renamed in 3.6; use %s", flag, r.until,
			r.replacement(args))
	case minor == 6 && r.setTwice(args):
		return fmt.Errorf("extra argument %q: etcd 3.6 does not start if both this flag and its new name are set, "+
			"and the new name is set; use %s", flag, r.replacement(args))
	default:
		return nil
	}
}

// setTwice reports whether the replacement of the flag is set as well, by the user or by
// the provider. The server searches for the gate's name anywhere in the value
// (SetFeatureGatesFromExperimentalFlags), so a longer name that contains it matches too.
func (r removed) setTwice(args map[string]string) bool {
	if r.gate != "" {
		return strings.Contains(strings.Join(GatesOf(args), ","), r.gate)
	}
	_, set := args[r.instead]
	return set || r.instead == ProgressFlag
}

// replacement returns what to write instead, with the current value.
func (r removed) replacement(args map[string]string) string {
	if r.gate == "" {
		return fmt.Sprintf("%s = %q", r.instead, args[r.flag])
	}
	gates := GatesOf(args)
	for _, other := range removals {
		value, set := args[other.flag]
		if other.gate == "" || !set {
			continue
		}
		gates = slices.DeleteFunc(gates, func(g string) bool { return strings.HasPrefix(g, other.gate+"=") })
		gates = append(gates, other.gate+"="+value)
	}
	return fmt.Sprintf("%s = %q", GatesFlag, strings.Join(gates, ","))
}

// GatesOf returns the entries of feature-gates that the server gets from 3.6 on: the
// provider's, unless the user sets the same one by either of its names, and the user's.
func GatesOf(args map[string]string) []string {
	gates := strings.FieldsFunc(strings.ReplaceAll(args[GatesFlag], " ", ""), func(r rune) bool { return r == ',' })
	_, named := args[CorruptFlag]
	if named || slices.ContainsFunc(gates, func(g string) bool { return strings.HasPrefix(g, corruptGate+"=") }) {
		return gates
	}
	return append([]string{corruptGate + "=true"}, gates...)
}

// validateGates refuses feature gates that a minor version does not know.
func validateGates(minor int, later bool, value string) []error {
	if minor < 6 {
		return nil // the flag itself is refused
	}
	var refused []error
	for _, entry := range GatesOf(map[string]string{GatesFlag: value}) {
		name, text, _ := strings.Cut(entry, "=")
		since, known := gatesSince[name]
		meant := problem.Nearest(name, slices.Collect(maps.Keys(gatesSince)))
		switch _, err := strconv.ParseBool(text); {
		case err != nil:
			refused = append(refused, fmt.Errorf("malformed feature gate %q: use NAME=true or NAME=false", entry))
		case known && since > minor:
			refused = append(refused, fmt.Errorf("feature gate %q: unknown to etcd 3.%d, added in 3.%d; "+
				"remove it until version is 3.%d", name, minor, since, since))
		case !known && meant != "":
			refused = append(refused, fmt.Errorf("feature gate %q: unknown to etcd 3.%d; did you mean %q?", name, minor, meant))
		case !known && !later:
			refused = append(refused, fmt.Errorf("feature gate %q: unknown to etcd 3.%d; remove it", name, minor))
		}
	}
	return refused
}
