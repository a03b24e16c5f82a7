package controlplane

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// drift says in words how a machine differs from s, each with the machine's
// name. A component that is merely not healthy at the moment is no drift; one
// whose unit is down is.
func drift(s component.Replica, f found, now time.Time) []string {
	var words []string
	words = append(words, recordDrift(s, f)...)
	for _, c := range component.Of(s) {
		words = append(words, componentDrift(s, c, f)...)
	}
	for _, file := range component.Files(s) {
		if fault := fileFault(f.facts.Files, file); fault != "" {
			words = append(words, file.Path+" "+fault)
		}
	}
	for _, path := range component.UnwantedFiles(s) {
		if _, there := f.facts.Files[path]; there {
			words = append(words, path+" is there, although it is not wanted")
		}
	}
	for _, c := range component.Certificates(s) {
		words = append(words, certificateFaults(s, c, f, now)...)
	}
	for _, k := range component.Kubeconfigs(s) {
		words = append(words, kubeconfigFaults(s, k, f, now)...)
	}
	for i, word := range words {
		words[i] = s.Machine() + ": " + word
	}
	return words
}

func recordDrift(s component.Replica, f found) []string {
	switch {
	case f.recordErr != nil:
		return []string{recordPath + " cannot be read"}
	case f.record.ClusterID == "":
		return []string{recordPath + " is missing"}
	case f.record.ClusterID != s.Bundle.ClusterID:
		return []string{fmt.Sprintf("holds a replica of another cluster, %q", f.record.ClusterName)}
	case f.record.Name != s.Name:
		return []string{fmt.Sprintf("holds replica %q, wanted %q", f.record.Name, s.Name)}
	case !f.record.describes(s):
		return []string{recordPath + " names another endpoint, port or etcd than wanted"}
	}
	return generationDrift(f.record.Generations, s.Bundle.Generations())
}

func generationDrift(have, want map[pki.Part]int) []string {
	var words []string
	for _, part := range pki.Parts() {
		if have[part] != want[part] {
			words = append(words, fmt.Sprintf("is at generation %d of %s, wanted %d", have[part], part, want[part]))
		}
	}
	return words
}

func componentDrift(s component.Replica, c component.Component, f found) []string {
	var words []string
	add := func(format string, args ...any) { words = append(words, c.Name+": "+fmt.Sprintf(format, args...)) }
	directory, name := path.Split(c.Program)
	if !slices.Contains(f.facts.Dirs[path.Clean(directory)], name) {
		add("%s is missing", c.Program)
	}
	state := f.facts.Units[unit.Name(c.Name)]
	fault := unitFault(state)
	if fault != "" {
		add("%s %s", unit.Name(c.Name), fault)
	} else if reason := restartReason(c, f, f.digests()); reason != "" {
		add("%s", reason)
	}
	if state.Load == "loaded" && state.Enabled != "enabled" {
		add("%s is %s, wanted enabled", unit.Name(c.Name), cmp.Or(state.Enabled, "not enabled"))
	}
	if version := f.version(c.Name); version != "" && version != s.Version {
		add("runs version %s, wanted %s", version, s.Version)
	}
	for _, word := range definitionDrift(c, f) {
		add("%s", word)
	}
	return words
}

// definitionDrift compares a unit file with its rendering: flag by flag where
// it can be read, as a whole otherwise.
func definitionDrift(c component.Component, f found) []string {
	want := unit.File(c)
	fault := fileFault(f.facts.Files, want)
	if fault == "" {
		return nil
	}
	state, ok := f.facts.Files[want.Path]
	if !ok || state.SHA256 == digest(want.Content) {
		return []string{want.Path + " " + fault}
	}
	executable, flags, err := unit.Parse(state.Content)
	if err != nil {
		return []string{want.Path + " was edited: " + err.Error()}
	}
	words := systemd.FlagDifferences(flags, c.Flags)
	if executable != c.Program {
		words = append(words, fmt.Sprintf("%s starts %s, wanted %s", want.Path, executable, c.Program))
	}
	if have := unit.Groups(state.Content); !slices.Equal(have, c.Groups) {
		words = append(words, fmt.Sprintf("%s names the groups [%s], wanted [%s]", want.Path, strings.Join(have, " "), strings.Join(c.Groups, " ")))
	}
	if len(words) == 0 {
		words = append(words, want.Path+" was edited")
	}
	return words
}
