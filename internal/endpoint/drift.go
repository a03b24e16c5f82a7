package endpoint

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// status is what seen means for s.
func status(s Spec, seen map[string]balancer) Status {
	holders, blind := holders(s, seen), false
	found := Status{Hosts: map[string]string{}, Backends: map[string]string{}, ConfigDigest: digest(seen)}
	for _, name := range names(seen) {
		b := seen[name]
		found.Hosts[name] = health(b)
		if b.unreachable != nil {
			blind = true
			continue
		}
		for _, difference := range drift(s, name, b) {
			found.Drift = append(found.Drift, name+": "+difference)
		}
	}
	switch {
	case len(holders) > 1:
		found.Drift = append(found.Drift, s.Address+" is held by "+strings.Join(holders, " and "))
	case len(holders) == 0 && !blind: // an unreachable host may hold it
		found.Drift = append(found.Drift, s.Address+" is held by none of the hosts")
	}
	if len(holders) > 0 {
		found.Holder = holders[0]
		for _, backend := range seen[found.Holder].stats {
			found.Backends[backend.Name] = backend.Status
		}
	}
	return found
}

// holders names the hosts that have the address, in order.
func holders(s Spec, seen map[string]balancer) []string {
	var holding []string
	for _, name := range names(seen) {
		if seen[name].holds(s.Address) {
			holding = append(holding, name)
		}
	}
	return holding
}

// health is "ok", or what is the matter with a host in words.
func health(b balancer) string {
	if b.unreachable != nil {
		return b.unreachable.Error()
	}
	var reasons []string
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		if !b.unitActive(unit) {
			reasons = append(reasons, unit+" is "+orDefault(b.facts.Units[unit].Active, "not there"))
		}
	}
	if len(reasons) == 0 && !b.answers {
		reasons = append(reasons, "HAProxy does not answer")
	}
	if len(reasons) == 0 {
		return "ok"
	}
	return strings.Join(reasons, "; ")
}

// drift says what on a reachable host is not as rendered. Which replicas are
// registered is not the endpoint's to judge; lines that registration does not
// write are.
func drift(s Spec, name string, b balancer) []string {
	if !b.present() {
		return []string{"the endpoint is not set up there"}
	}
	var differences []string
	for _, program := range missingPackages(b.facts) {
		differences = append(differences, "package "+program+" is not, or not wholly, installed")
	}
	if b.device == "" {
		differences = append(differences, "no interface for the address was found")
	} else {
		for _, wanted := range files(s, name, b) {
			differences = append(differences, fileDrift(b.facts.Files, wanted)...)
		}
	}
	if _, found := b.facts.Files[caPath]; found && s.CACertificate == "" {
		differences = append(differences, caPath+" is there and not wanted")
	}
	if _, found := b.facts.Files[backendsPath]; !found {
		differences = append(differences, backendsPath+" is not there")
	}
	for _, line := range b.foreign {
		differences = append(differences, fmt.Sprintf("%s: found %q, which no registration writes", backendsPath, line))
	}
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		state := b.facts.Units[unit]
		if !b.unitActive(unit) {
			differences = append(differences, unit+" is "+orDefault(state.Active, "not there"))
		}
		if state.Load == "loaded" && state.Enabled != "enabled" {
			differences = append(differences, unit+" is not enabled")
		}
	}
	return differences
}

// fileDrift compares one file with what was found of it.
func fileDrift(found map[string]host.FileState, wanted host.File) []string {
	state, there := found[wanted.Path]
	if !there {
		return []string{wanted.Path + " is not there"}
	}
	var differences []string
	if state.Mode != wanted.Mode {
		differences = append(differences, fmt.Sprintf("%s: mode is %#o, wanted %#o", wanted.Path, state.Mode, wanted.Mode))
	}
	if state.Owner != "root" || state.Group != "root" {
		differences = append(differences, fmt.Sprintf("%s: owner is %s:%s, wanted root:root", wanted.Path, state.Owner, state.Group))
	}
	if sameContent(state, wanted) {
		return differences
	}
	if state.Content == "" {
		return append(differences, wanted.Path+": content differs")
	}
	return append(differences, lineDrift(wanted.Path, state.Content, string(wanted.Content))...)
}

func sameContent(state host.FileState, wanted host.File) bool {
	if state.Content != "" {
		return bytes.Equal([]byte(state.Content), wanted.Content)
	}
	return state.SHA256 == sum(wanted.Content)
}

// lineDrift says which lines of a configuration differ. A line found in place of
// one with the same first word is one change.
func lineDrift(path, found, wanted string) []string {
	extra, absent := subtract(found, wanted), subtract(wanted, found)
	var differences []string
	for _, line := range extra {
		word, _, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(absent, func(other string) bool { return sameSetting(word, line, other) })
		if at < 0 {
			differences = append(differences, fmt.Sprintf("%s: found %q, wanted nothing", path, line))
			continue
		}
		differences = append(differences, fmt.Sprintf("%s: found %q, wanted %q", path, line, absent[at]))
		absent = slices.Delete(absent, at, at+1)
	}
	for _, line := range absent {
		differences = append(differences, fmt.Sprintf("%s: wanted %q, found nothing", path, line))
	}
	if len(differences) == 0 {
		differences = append(differences, path+": lines are in another order")
	}
	return differences
}

// sameSetting: "timeout client 1m" stands for another "timeout client", and
// "balance first" for any other "balance".
func sameSetting(word, line, other string) bool {
	if word != "timeout" && word != "option" {
		first, _, _ := strings.Cut(other, " ")
		return first == word
	}
	a, b := strings.Fields(line), strings.Fields(other)
	return len(a) > 1 && len(b) > 1 && a[0] == b[0] && a[1] == b[1]
}

// subtract gives the lines of text that are not in other, counted.
func subtract(text, other string) []string {
	count := map[string]int{}
	for line := range strings.Lines(other) {
		count[strings.TrimSpace(line)]++
	}
	var rest []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if count[line]--; count[line] < 0 && line != "" {
			rest = append(rest, line)
		}
	}
	return rest
}
