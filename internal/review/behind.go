package review

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// behindAPIServer are the components of a replica whose restart leaves it in rotation: those of another one take over.
var behindAPIServer = []string{"controller_manager", "scheduler"}

// behindOwners are the users of these components.
var behindOwners = []string{"kube-controller-manager", "kube-scheduler"}

// filesDir is the directory of a replica's files (FilesDir of internal/controlplane/component).
const filesDir = "/etc/kubernetes/files/"

// behindDrift matches the drift of a component behind the API server, and of the kubeconfig that only it reads. Drift
// of anything else of a replica may be repaired by a restart of its API server.
var behindDrift = regexp.MustCompile(`^[A-Za-z0-9._-]+(?: \([0-9A-Fa-f.:]+\))?: ` +
	`(?:kube-(?:controller-manager|scheduler): |/etc/kubernetes/(?:controller-manager|scheduler)\.conf[: ])`)

// repairEffect returns the effect of a repair.
func repairEffect(kind string, drift []string) Effect {
	other := func(text string) bool { return !behindDrift.MatchString(text) }
	if kind == "kube_control_plane_replica" && len(drift) > 0 && !slices.ContainsFunc(drift, other) {
		return Behind
	}
	return Repair
}

// replicaEffect returns the effect of the change of a replica's argument whose effect by its keys alone is another one.
// A file restarts the components that read it, and flags decide which these are.
func (c change) replicaEffect(name string, byKeys Effect) Effect {
	switch name {
	case "files", "file_digests":
		if c.filesBehind(name) {
			return min(byKeys, Behind)
		}
	case "extra_args", "repeated_args":
		if c.mayMoveFiles() {
			return max(byKeys, Restart)
		}
	}
	return byKeys
}

// filesBehind reports whether only components behind the API server read the files that differ.
func (c change) filesBehind(name string) bool {
	whole := func(argument string) bool {
		return anyTrue(c.unknown[argument]) && attributes(c.unknown[argument]) == nil
	}
	if anyTrue(c.unknown["extra_args"]) || anyTrue(c.unknown["repeated_args"]) || whole("files") || whole(name) {
		return false
	}
	before, after := attributes(c.before[name]), attributes(c.after[name])
	unknown := attributes(c.unknown[name])
	for file := range merged(merged(before, after), unknown) {
		if !anyTrue(unknown[file]) && reflect.DeepEqual(before[file], after[file]) {
			continue
		}
		_, existed := before[file]
		if existed && !isBehind(c.before, file) || !isBehind(c.after, file) && !c.removed(file) {
			return false
		}
	}
	return true
}

// removed reports whether the change removes a file.
func (c change) removed(file string) bool {
	_, remains := merged(attributes(c.after["files"]), attributes(c.unknown["files"]))[file]
	return !remains
}

// mayMoveFiles reports whether a change of flags may give the API server a file that it did not read, or take one from
// it. The files that it reads at its start are part of its definition, so either restarts it.
func (c change) mayMoveFiles() bool {
	if anyTrue(c.unknown["extra_args"]) || anyTrue(c.unknown["repeated_args"]) {
		return len(attributes(c.after["files"]))+len(attributes(c.unknown["files"])) > 0
	}
	for file := range attributes(c.before["files"]) {
		behind := isBehind(c.before, file) && isBehind(c.after, file)
		if !behind && !c.removed(file) && !reflect.DeepEqual(namingFlags(c.before, file), namingFlags(c.after, file)) {
			return true
		}
	}
	return false
}

// isBehind reports whether only components behind the API server read a file of a replica with these values: those
// whose flags name it, and its owner if none does. A flag that names the file in another way than by its path alone
// does not count as one of theirs, and counts as one of the API server's.
func isBehind(values map[string]any, file string) bool {
	if mayName(values, "apiserver", file) {
		return false
	}
	owner, _ := attributes(attributes(values["files"])[file])["owner"].(string)
	return slices.Contains(behindOwners, owner) || slices.ContainsFunc(behindAPIServer, func(component string) bool {
		for _, value := range attributes(attributes(values["extra_args"])[component]) {
			if value == filesDir+file {
				return true
			}
		}
		return false
	})
}

// mayName reports whether a flag of a component may name a file.
func mayName(values map[string]any, component, file string) bool {
	return len(namingFlags(values, file)[component]) > 0
}

// namingFlags returns the flags that may name a file, with their values, by component.
func namingFlags(values map[string]any, file string) map[string][]any {
	naming := map[string][]any{}
	for _, argument := range []string{"extra_args", "repeated_args"} {
		for component, flags := range attributes(values[argument]) {
			all := attributes(flags)
			for _, flag := range slices.Sorted(maps.Keys(all)) {
				if text, err := json.Marshal(all[flag]); err != nil || strings.Contains(string(text), file) {
					naming[component] = append(naming[component], argument, flag, all[flag])
				}
			}
		}
	}
	return naming
}

// unknownValue is a value that is known after the apply.
type unknownValue struct{}

// withUnknown returns a value with an unknownValue in place of each part that is known after the apply. Marks have the
// shape of the value, with true in place of such a part (Terraform's JSON output format, "after_unknown").
func withUnknown(value, marks any) any {
	parts := attributes(marks)
	switch {
	case !anyTrue(marks):
		return value
	case parts == nil:
		return unknownValue{}
	}
	out := merged(attributes(value), nil)
	for name, mark := range parts {
		if anyTrue(mark) {
			out[name] = withUnknown(out[name], mark)
		}
	}
	return out
}
