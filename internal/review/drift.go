package review

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// finding is one thing on a machine that is not as it should be.
type finding struct {
	machine string
	part    string // "etcd", "replica", "endpoint"
	text    string // the provider's words for it
	ours    string // this package's words, which stand before them
}

// named matches what drift begins with: the machine, with or without its address.
var named = regexp.MustCompile(`(?s)^([^\s:]+)(?: \([^)]*\))?: (.+)$`)

// findings lists what drifted and what is not well, by machine.
func (p Plane) findings() []finding {
	machines := p.machines()
	all := p.faults()
	for _, r := range p.resources() {
		if r.Gone {
			all = append(all, finding{machine: r.Name, part: part(r.Kind), ours: "is gone: it was there at the last apply"})
		}
		for _, text := range r.Drift {
			f := finding{machine: r.Name, part: part(r.Kind), text: text}
			if match := named.FindStringSubmatch(text); match != nil && machines[match[1]] {
				f.machine, f.text = match[1], match[2]
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(a.machine, b.machine) })
	return all
}

// faults lists what is not well, whether an apply mends it or not.
func (p Plane) faults() []finding {
	var all []finding
	for _, e := range p.Endpoints {
		for _, machine := range slices.Sorted(maps.Keys(e.Health)) {
			switch health := e.Health[machine]; {
			case unreachable(health):
				all = append(all, finding{machine, "machine", health, "cannot be reached; what is said of it is as it was last seen: "})
			case health != "ok":
				all = append(all, finding{machine, "endpoint", health, ""})
			}
		}
	}
	for _, m := range p.Members {
		if m.Healthy != nil && !*m.Healthy && !p.unreachable(m.Resource) {
			all = append(all, finding{machine: m.Name, part: "etcd", ours: "the member is not healthy"})
		}
	}
	for _, r := range p.Replicas {
		if p.unreachable(r.Resource) {
			continue
		}
		if r.Registered != nil && !*r.Registered {
			all = append(all, finding{machine: r.Name, part: "replica", ours: "is out of rotation"})
		}
		for _, text := range r.Ill {
			if !r.stopped(text) {
				all = append(all, finding{machine: r.Name, part: "replica", text: text})
			}
		}
	}
	return all
}

// stopped says whether the unit of a component that is ill does not run: drift says
// so, and that nothing answers follows from it.
func (r Replica) stopped(ill string) bool {
	component, _, _ := strings.Cut(ill, ": ")
	return slices.ContainsFunc(r.Drift, func(text string) bool {
		return strings.Contains(text, ": "+component+": "+component+".service ") && !strings.HasSuffix(text, ", wanted enabled")
	})
}

// unreachable is what package host says first of a machine that does not answer
// by SSH, wherever in a chain of causes it stands.
func unreachable(health string) bool { return strings.Contains(health, "unreachable over SSH") }

// unreachable says whether the resource's machine did not answer. A plan's JSON
// has no warnings: the word of an endpoint on the same machine is all there is.
func (p Plane) unreachable(r Resource) bool {
	for _, e := range p.Endpoints {
		for machine, health := range e.Health {
			if unreachable(health) && r.Machine != "" && e.Hosts[machine] == r.Machine {
				return true
			}
		}
	}
	return false
}

// machines are the names of those that the control plane is on.
func (p Plane) machines() map[string]bool {
	names := map[string]bool{}
	for _, m := range p.Members {
		names[m.Name] = true
	}
	for _, r := range p.Replicas {
		names[r.Name] = true
	}
	for _, e := range p.Endpoints {
		for name := range e.Hosts {
			names[name] = true
		}
	}
	return names
}

// part is what a resource is called in a sentence.
func part(kind string) string {
	switch kind {
	case "kube_etcd_member":
		return "etcd"
	case "kube_control_plane_replica":
		return "replica"
	case "kube_control_plane_endpoint":
		return "endpoint"
	}
	return strings.ReplaceAll(strings.TrimPrefix(kind, "kube_"), "_", " ")
}

// code is text as code in Markdown, where nothing in it means anything else: no
// link, no mention, no tag. Text from machines is shown so, and not at any length.
func code(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(problem.Line(text)), " ")
	if characters := []rune(text); len(characters) > most {
		text = string(characters[:most]) + "…"
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fmt.Sprintf("%s%s%s", fence, text, fence)
}
