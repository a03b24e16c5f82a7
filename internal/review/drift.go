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

// finding is one detected problem on a machine.
type finding struct {
	machine string
	part    string // "etcd", "replica", "endpoint"
	text    string // the provider's text
	ours    string // this package's text, shown before the provider's
}

// named matches the beginning of a drift entry: the machine, with or without its address.
var named = regexp.MustCompile(`(?s)^([^\s:]+)(?: \([^)]*\))?: (.+)$`)

// findings lists drift and problems by machine.
func (p Plane) findings() []finding {
	machines := p.machines()
	all := p.problems()
	for _, r := range p.resources() {
		if r.Gone {
			all = append(all, finding{machine: r.Name, part: part(r.Kind), ours: "is gone: it existed at the last apply"})
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

// problems lists what the data source reports as unhealthy, whether or not an apply repairs it.
func (p Plane) problems() []finding {
	var all []finding
	for _, address := range slices.Sorted(maps.Keys(p.Unreached)) {
		all = append(all, finding{p.machineAt(address), "machine", p.Unreached[address], "cannot be reached; its state is as it was last seen: "})
	}
	for _, m := range p.Members {
		if m.Healthy != nil && !*m.Healthy && !p.unreachable(m.Resource) {
			all = append(all, finding{m.Name, "etcd", m.Trouble, "the member is not healthy: "})
		}
	}
	for _, r := range p.Replicas {
		if p.unreachable(r.Resource) {
			continue
		}
		if r.Registered != nil && !*r.Registered {
			all = append(all, finding{machine: r.Name, part: "replica", ours: "is out of rotation"})
		}
		for _, text := range r.Unhealthy {
			if !r.stopped(text) {
				all = append(all, finding{machine: r.Name, part: "replica", text: text})
			}
		}
	}
	return all
}

// stopped reports whether the unit of an unhealthy component is stopped. Drift reports the
// stopped unit already, and the failed health check follows from it.
func (r Replica) stopped(unhealthy string) bool {
	component, _, _ := strings.Cut(unhealthy, ": ")
	return slices.ContainsFunc(r.Drift, func(text string) bool {
		return strings.Contains(text, ": "+component+": "+component+".service ") && !strings.HasSuffix(text, ", wanted enabled")
	})
}

// unreachable reports whether the resource's machine did not answer. The JSON of a plan
// contains no warnings, so this is known from a data source only.
func (p Plane) unreachable(r Resource) bool {
	_, unreached := p.Unreached[r.Machine]
	return unreached
}

// machineAt returns the name of the machine at an address.
func (p Plane) machineAt(address string) string {
	for _, r := range append(p.members(), p.replicas()...) {
		if r.Machine == address {
			return r.Name
		}
	}
	for _, e := range p.Endpoints {
		for name, at := range e.Hosts {
			if at == address {
				return name
			}
		}
	}
	return address
}

// machines returns the names of the control plane's machines.
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

// part returns the name of a kind of resource in a sentence.
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

// code formats text as a Markdown code span, in which links, mentions and tags have no effect.
// Text from machines is shown this way, with limited length.
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
