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

// findings lists drift and problems, by machine.
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

// problems lists what the data source found unhealthy, whether an apply repairs it or not.
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

// stopped says whether the unit of an unhealthy component does not run: drift says
// so, and that nothing answers follows from it.
func (r Replica) stopped(unhealthy string) bool {
	component, _, _ := strings.Cut(unhealthy, ": ")
	return slices.ContainsFunc(r.Drift, func(text string) bool {
		return strings.Contains(text, ": "+component+": "+component+".service ") && !strings.HasSuffix(text, ", wanted enabled")
	})
}

// unreachable says whether the resource's machine did not answer. A plan's JSON
// has no warnings: only a data source tells.
func (p Plane) unreachable(r Resource) bool {
	_, unreached := p.Unreached[r.Machine]
	return unreached
}

// machineAt is the name of the machine at an address.
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
