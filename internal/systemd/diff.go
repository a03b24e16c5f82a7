package systemd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// FlagDifferences describes each flag that differs, sorted by name. It returns none if the
// flags are equal.
func FlagDifferences(observed, wanted map[string]string) []string {
	var differences []string
	all := maps.Clone(observed)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, wanted)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		have, isThere := observed[name]
		want, isWanted := wanted[name]
		switch {
		case !isThere:
			differences = append(differences, fmt.Sprintf("flag --%s is missing, wanted %s", name, shown(want)))
		case !isWanted:
			differences = append(differences, fmt.Sprintf("flag --%s is %s, wanted not to be set", name, shown(have)))
		case have != want:
			differences = append(differences, fmt.Sprintf("flag --%s is %s, wanted %s", name, shown(have), shown(want)))
		}
	}
	return differences
}

// shown quotes the values of a flag.
func shown(value string) string {
	var quoted []string
	for _, one := range strings.Split(value, "\n") {
		quoted = append(quoted, strconv.Quote(one))
	}
	return strings.Join(quoted, ", ")
}

// LineDifferences describes the lines that only one of two versions of a file contains, in any
// order. It returns none if there are no such lines.
func LineDifferences(path, observed, wanted string) []string {
	have, want := strings.Split(observed, "\n"), strings.Split(wanted, "\n")
	var differences []string
	for _, line := range have {
		if !slices.Contains(want, line) {
			differences = append(differences, fmt.Sprintf("%s has the line %q, which was not written by the provider", path,
				line))
		}
	}
	for _, line := range want {
		if !slices.Contains(have, line) {
			differences = append(differences, fmt.Sprintf("%s lacks the line %q", path, line))
		}
	}
	return differences
}
