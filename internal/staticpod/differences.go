package staticpod

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Differences describes how a pod differs from the wanted one: each flag, variable, mount and setting in words. It
// returns none if they are equal. Digests of inputs are not compared: they follow from other files.
func Differences(have, want Pod) []string {
	var words []string
	differ := func(what, have, want string) {
		if have != want {
			words = append(words, fmt.Sprintf("%s is %q, wanted %q", what, have, want))
		}
	}
	differ("the name of the pod", have.Name, want.Name)
	differ("the image", have.Image, want.Image)
	differ("the program", have.Program, want.Program)
	words = append(words, systemd.FlagDifferences(have.Flags, want.Flags)...)
	words = append(words, entryDifferences("variable", have.Environment, want.Environment)...)
	words = append(words, mountDifferences(have.Mounts, want.Mounts)...)
	words = append(words, entryDifferences("resource request", have.Requests, want.Requests)...)
	words = append(words, entryDifferences("resource limit", have.Limits, want.Limits)...)
	words = append(words, entryDifferences("annotation", have.Annotations, want.Annotations)...)
	for _, p := range []struct {
		name       string
		have, want *Probe
	}{
		{"liveness", have.Liveness, want.Liveness},
		{"readiness", have.Readiness, want.Readiness},
		{"startup", have.Startup, want.Startup},
	} {
		if !reflect.DeepEqual(p.have, p.want) {
			words = append(words, "the "+p.name+" probe is another one")
		}
	}
	if !reflect.DeepEqual(have.User, want.User) {
		words = append(words, "the user is another one")
	}
	if have.Patch != want.Patch {
		words = append(words, fmt.Sprintf("the patch is %s, wanted %s", problem.Quote(string(have.Patch)),
			problem.Quote(string(want.Patch))))
	}
	if have.Grace != want.Grace {
		words = append(words, fmt.Sprintf("the termination grace period is %d s, wanted %d s", have.Grace, want.Grace))
	}
	return words
}

// entryDifferences describes the entries that differ, sorted by name.
func entryDifferences(what string, have, want map[string]string) []string {
	all := map[string]bool{}
	for name := range have {
		all[name] = true
	}
	for name := range want {
		all[name] = true
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		has, there := have[name]
		wants, wanted := want[name]
		switch {
		case !there:
			words = append(words, fmt.Sprintf("%s %q is missing, wanted %q", what, name, wants))
		case !wanted:
			words = append(words, fmt.Sprintf("%s %q is %q, wanted not to be set", what, name, has))
		case has != wants:
			words = append(words, fmt.Sprintf("%s %q is %q, wanted %q", what, name, has, wants))
		}
	}
	return words
}

func mountDifferences(have, want []Mount) []string {
	text := func(mounts []Mount) map[string]string {
		all := map[string]string{}
		for _, m := range mounts {
			mode := "writable"
			if m.ReadOnly {
				mode = "read-only"
			}
			all[m.Name] = fmt.Sprintf("%s at %s, %s, %s", m.Path, m.at(), mode, m.Type)
		}
		return all
	}
	words := entryDifferences("mount", text(have), text(want))
	if len(words) == 0 && !slices.Equal(have, want) {
		words = append(words, "the mounts are in another order")
	}
	return words
}

func (m Mount) at() string {
	if m.At == "" {
		return m.Path
	}
	return m.At
}
