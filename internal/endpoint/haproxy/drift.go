package haproxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// drift describes the differences between a reachable host and what is rendered for it. Which
// replicas are registered is not drift; lines that no registration writes are.
func drift(s Spec, name string, b balancer) []string {
	switch {
	case b.otherEndpoint != "":
		return []string{b.otherEndpoint}
	case !b.installed():
		return []string{"the endpoint is not set up there"}
	}
	var differences []string
	if b.owner.ClusterID != s.ClusterID || b.owner.Address != s.Address {
		differences = append(differences, recordPath+": does not record that the host belongs to this endpoint")
	}
	for _, program := range packages.HAProxy().Missing(b.facts) {
		differences = append(differences, "package "+program+" is not completely installed")
	}
	if b.device == "" {
		differences = append(differences, "no interface for the address was found")
	} else {
		for _, wanted := range files(s, name, b) {
			differences = append(differences, endpoint.FileDrift(b.facts.Files, wanted, lineDrift)...)
		}
	}
	if _, observed := b.facts.Files[caPath]; observed && s.CACertificate == "" {
		differences = append(differences, caPath+" exists and is not wanted")
	}
	differences = append(differences, waitingDrift(s, b)...)
	for _, job := range s.jobs(b.device) {
		differences = append(differences, job.Drift(b.facts)...)
	}
	differences = append(differences, inheritDrift(s, b)...)
	return append(append(differences, serversDrift(s, b)...), unitDrift(s, b)...)
}

// serversDrift describes the entries of a host's list of servers that no registration writes.
func serversDrift(s Spec, b balancer) []string {
	if !b.hasList() {
		return []string{backendsPath + " is not there"}
	}
	var differences []string
	for _, line := range b.foreign {
		differences = append(differences, fmt.Sprintf("%s: found %q, which no registration writes", backendsPath,
			shortened(line)))
	}
	for _, observed := range b.unmarked {
		differences = append(differences, fmt.Sprintf("%s: %s has no mark of a registration", backendsPath, observed))
	}
	for _, observed := range b.repeated {
		differences = append(differences, fmt.Sprintf("%s: %s is there more than once", backendsPath, observed))
	}
	for _, name := range b.unexpected {
		differences = append(differences, fmt.Sprintf("HAProxy's statistics: found a server %q, which no registration gives",
			shortened(name)))
	}
	wanted := host.File{Path: backendsPath, Mode: 0o644, Content: []byte(renderBackends(s.Address, b.servers, nil))}
	if len(differences) > 0 { // the lines above describe the content
		wanted.Content = []byte(b.facts.Files[backendsPath].Content)
	}
	return append(append(differences, endpoint.FileDrift(b.facts.Files, wanted, lineDrift)...), runningDrift(b)...)
}

// runningDrift describes servers that HAProxy runs with and its file does not list: it was not reloaded. During a
// reload, it has the servers of before. A server that HAProxy lacks is the drift of its replica.
func runningDrift(b balancer) []string {
	if b.facts.Units[haproxyUnit].Active == "reloading" {
		return nil
	}
	var differences []string
	for _, running := range b.stats {
		if s := (server{running.Name, running.Address}); !slices.Contains(b.servers, s) {
			differences = append(differences, fmt.Sprintf("HAProxy runs with %s, which %s does not list", s, backendsPath))
		}
	}
	return differences
}

func unitDrift(s Spec, b balancer) []string {
	var differences []string
	for _, unit := range []string{haproxyUnit, keepalivedUnit} {
		state := b.facts.Units[unit]
		if !b.unitActive(unit) {
			differences = append(differences, unit+" is "+activeState(state))
		}
		if state.Load == "loaded" && state.Enabled != "enabled" {
			differences = append(differences, unit+" is not enabled")
		}
		if reason := s.liveness(b.device).NotReady(b.facts, unit); reason != "" {
			differences = append(differences, unit+": "+reason)
		}
	}
	return differences
}

// lineDrift describes which lines of a configuration differ. A line with the same setting and
// another value is one change.
func lineDrift(path, observed, wanted string) []string {
	extra, absent := subtract(observed, wanted), subtract(wanted, observed)
	var differences []string
	for _, line := range extra {
		word, _, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(absent, func(other string) bool { return sameSetting(word, line, other) })
		if at < 0 {
			differences = append(differences, fmt.Sprintf("%s: found %q, wanted nothing", path, shortened(line)))
			continue
		}
		differences = append(differences, fmt.Sprintf("%s: found %q, wanted %q", path, shortened(line), absent[at]))
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

// sameSetting reports whether two lines set the same thing: "timeout client 1m" and another
// "timeout client", or "balance first" and any other "balance".
func sameSetting(word, line, other string) bool {
	if word != "timeout" && word != "option" {
		first, _, _ := strings.Cut(other, " ")
		return first == word
	}
	a, b := strings.Fields(line), strings.Fields(other)
	return len(a) > 1 && len(b) > 1 && a[0] == b[0] && a[1] == b[1]
}

// subtract returns the lines of text that are not in other. It respects repeated lines.
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
