package nodebootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// missing ends a difference by which something is to be added.
const missing = " is missing"

// Differences describes how an existing object differs from o, field by field; existing is nil if there is none.
// What other managers have added beside the fields of o is no difference, and neither is another layout of the
// YAML in a ConfigMap.
func (o Object) Differences(existing map[string]any) []string {
	if existing == nil {
		return []string{o.Label() + missing}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
		if name != "data" {
			for _, difference := range valueDifferences(name, existing[name], o.Fields[name]) {
				out = append(out, o.Label()+": "+difference)
			}
			continue
		}
		have, _ := existing[name].(map[string]any)
		wanted, _ := o.Fields[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			for _, difference := range textDifferences(have[key], wanted[key]) {
				out = append(out, o.Label()+": "+key+": "+difference)
			}
		}
	}
	return out
}

// textDifferences compares two values of a ConfigMap, which are YAML.
func textDifferences(have, wanted any) []string {
	text, isText := have.(string)
	if !isText {
		return []string{"is missing"}
	}
	var haveFields, wantedFields map[string]any
	wantedText, _ := wanted.(string)
	if err := yaml.Unmarshal([]byte(text), &haveFields); err != nil || haveFields == nil {
		return []string{"is not a mapping in YAML"}
	}
	if err := yaml.Unmarshal([]byte(wantedText), &wantedFields); err != nil {
		return []string{"differs"}
	}
	return mapDifferences("", haveFields, wantedFields)
}

func mapDifferences(prefix string, have, wanted map[string]any) []string {
	names := slices.Collect(maps.Keys(have))
	for name := range wanted {
		if _, both := have[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []string
	for _, name := range names {
		haveMap, isMap := have[name].(map[string]any)
		wantedMap, wantsMap := wanted[name].(map[string]any)
		if isMap && wantsMap {
			out = append(out, mapDifferences(prefix+name+".", haveMap, wantedMap)...)
			continue
		}
		out = append(out, valueDifferences(prefix+name, have[name], wanted[name])...)
	}
	return out
}

func valueDifferences(name string, have, wanted any) []string {
	if reflect.DeepEqual(normal(have), normal(wanted)) {
		return nil
	}
	switch {
	case have == nil:
		return []string{name + missing}
	case wanted == nil:
		return []string{name + " is set, but is not wanted"}
	}
	haveText, wantedText := shown(have), shown(wanted)
	if len(haveText) > longestShown || len(wantedText) > longestShown || haveText == wantedText {
		return []string{name + " differs"}
	}
	return []string{fmt.Sprintf("%s is %s instead of %s", name, haveText, wantedText)}
}

// longestShown is the length of a value in a difference. Certificates are longer.
const longestShown = 300

// normal returns a value as JSON has it, so that numbers compare equal whatever parsed them.
func normal(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return value
	}
	return out
}

func shown(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// FieldManager is the owner of the fields that the provider applies.
const FieldManager = "terraform-provider-kube"

// Owners reports whether the provider is among the managers of an object, and returns the others. Whoever only
// writes the signatures of cluster-info (controller-manager's bootstrapsigner) is none.
func Owners(existing map[string]any) (owned bool, others []string) {
	metadata, _ := existing["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, each := range entries {
		entry, _ := each.(map[string]any)
		manager, _ := entry["manager"].(string)
		fields, _ := entry["fieldsV1"].(map[string]any)
		switch {
		case manager == FieldManager:
			owned = true
		case onlySignatures(fields) || slices.Contains(others, manager):
		default:
			others = append(others, manager)
		}
	}
	if len(entries) == 0 {
		others = []string{"an unknown manager"}
	}
	slices.Sort(others)
	return owned, others
}

// onlySignatures reports whether fields are signatures of cluster-info and nothing else.
func onlySignatures(fields map[string]any) bool {
	data, _ := fields["f:data"].(map[string]any)
	if len(fields) != 1 || len(data) == 0 {
		return false
	}
	for name := range data {
		if name != "." && !strings.HasPrefix(name, "f:jws-kubeconfig-") {
			return false
		}
	}
	return true
}
