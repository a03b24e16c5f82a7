package review

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// output judges the change of an output, which other configurations may use.
func (s *scrutiny) output(name string, c planChange) {
	actions := strings.Join(c.Actions, ", ")
	caused := anyTrue(c.AfterUnknown) && follows(c.Before, c.After, c.AfterUnknown)
	if actions != "no-op" && (actions != "update" || !caused) {
		s.object("output "+code(name), "changes")
	}
}

// follows reports whether a value has its form of before, and its parts are either unchanged or not known
// until the apply: then its change is a consequence of what the apply does. Marks are those of Terraform's JSON
// output format ("after_unknown"): without the parts that are known, of which the value has no others.
func follows(before, after, marks any) bool {
	switch marks := marks.(type) {
	case bool:
		return marks || reflect.DeepEqual(before, after)
	case map[string]any:
		was, is := attributes(before), attributes(after)
		names := slices.Sorted(maps.Keys(merged(is, marks)))
		if was == nil || !slices.Equal(names, slices.Sorted(maps.Keys(was))) {
			return false
		}
		return !slices.ContainsFunc(names, func(name string) bool {
			return !follows(was[name], is[name], marked(marks[name]))
		})
	case []any:
		was, ok := before.([]any)
		is, _ := after.([]any)
		if !ok || len(was) != len(marks) || len(is) != 0 && len(is) != len(marks) {
			return false
		}
		for i, mark := range marks {
			var value any
			if len(is) > 0 {
				value = is[i]
			}
			if !follows(was[i], value, mark) {
				return false
			}
		}
		return true
	}
	return false
}

// marked is the mark of a part that marks may leave out because it is known.
func marked(mark any) any {
	if mark == nil {
		return false
	}
	return mark
}
