package review

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// finding is one detected problem on a machine.
type finding struct {
	machine string
	part    string // "etcd", "replica", "endpoint", "machine"
	text    string // the provider's text
	intro   string // this package's text, shown before the provider's
}

// driftEntry matches a drift entry: the machine, with or without its address, and the text.
var driftEntry = regexp.MustCompile(`(?s)^([^\s:]+)(?: \([^)]*\))?: (.+)$`)

// findings lists drift and problems by machine.
func (p ControlPlane) findings() []finding {
	machines := p.machines()
	all := p.problems()
	for _, r := range p.resources() {
		if r.Missing {
			all = append(all, finding{machine: r.Name, part: part(r.Kind), intro: "is missing: it existed after the last apply"})
		}
		for _, text := range r.Drift {
			f := finding{machine: r.Name, part: part(r.Kind), text: text}
			if match := driftEntry.FindStringSubmatch(text); match != nil && machines[match[1]] {
				f.machine, f.text = match[1], match[2]
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(a.machine, b.machine) })
	return all
}

// problems lists what the data source reports as unhealthy, whether or not an apply repairs it.
func (p ControlPlane) problems() []finding {
	var all []finding
	for _, address := range slices.Sorted(maps.Keys(p.Unreached)) {
		all = append(all, finding{
			machine: p.machineAt(address), part: "machine", text: p.Unreached[address],
			intro: "unreachable, so its state is the last known one: ",
		})
	}
	for _, m := range p.Members {
		if m.Healthy != nil && !*m.Healthy && !p.unreachable(m.Resource) {
			unhealthy := finding{machine: m.Name, part: "etcd", text: m.Trouble, intro: "the member is unhealthy: "}
			all = append(all, unhealthy)
		}
	}
	for _, r := range p.Replicas {
		if p.unreachable(r.Resource) {
			continue
		}
		if r.Registered != nil && !*r.Registered {
			all = append(all, finding{machine: r.Name, part: "replica", intro: "is out of rotation"})
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
		unit := strings.Contains(text, ": "+component+": "+component+".service ")
		return unit && !strings.HasSuffix(text, ", wanted enabled")
	})
}

// unreachable reports whether the resource's machine did not answer. The JSON of a plan
// contains no warnings, so this is known from a data source only.
func (p ControlPlane) unreachable(r Resource) bool {
	_, unreachable := p.Unreached[r.Machine]
	return unreachable
}

// machineAt returns the name of the machine at an address.
func (p ControlPlane) machineAt(address string) string {
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
func (p ControlPlane) machines() map[string]bool {
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
