package health

import (
	"maps"
	"net"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
)

// Replica is one replica as the balancers list it, as observed on its machine, or both.
type Replica struct {
	controlplane.Health
	Listed string // host:port at the balancers; "" if no balancer lists it
}

// Replicas joins the replicas that the balancers list, host:port by name, with those observed on the machines.
func Replicas(observed []controlplane.Health, listed map[string]string) map[string]Replica {
	out := map[string]Replica{}
	for _, f := range observed {
		if f.Name != "" {
			out[f.Name] = Replica{Health: f}
		}
	}
	for name, at := range listed {
		replica := Replica{Health: controlplane.Health{Address: machineOf(at)}, Listed: at}
		for _, f := range observed {
			if f.Address == replica.Address {
				replica.Health = f
			}
		}
		out[name] = replica
	}
	return out
}

// UnnamedMachines returns the addresses of listed replicas, host:port by name, that are not among those named.
func UnnamedMachines(listed map[string]string, named []string) []string {
	var more []string
	for _, at := range listed {
		address := machineOf(at)
		if !slices.Contains(named, address) && !slices.Contains(more, address) {
			more = append(more, address)
		}
	}
	slices.Sort(more)
	return more
}

// machineOf returns the machine of a replica at host:port.
func machineOf(at string) string {
	address, _, err := net.SplitHostPort(at)
	if err != nil {
		return at
	}
	return address
}

func replicaIssues(seen ControlPlane) []Issue {
	var issues []Issue
	for _, name := range slices.Sorted(maps.Keys(seen.Replicas)) {
		r := seen.Replicas[name]
		label := Labelled("replica", name, r.Address)
		switch {
		case r.Err != nil:
		case r.Foreign != "":
			issues = append(issues, unhealthy("%s: its machine has %s", label, r.Foreign))
		case r.Name == "":
			issues = append(issues, unhealthy("%s: the balancers list it, but its machine has no replica", label))
		case r.Name != name:
			issues = append(issues, unhealthy("%s: the balancers list it, but its machine has replica %q", label, r.Name))
		default:
			for _, c := range r.Components {
				if !c.Healthy {
					issues = append(issues, unhealthy("%s: %s: %s", label, c.Name, c.Health))
				}
			}
		}
		issues = append(issues, rotationIssues(seen.Endpoint, name, label)...)
	}
	return issues
}

// rotationIssues reports the balancers at which a replica is not in rotation. Balancers with
// the same reason are reported together. A balancer that has problems itself has an issue of
// its own.
func rotationIssues(h Endpoint, replica, label string) []Issue {
	if h.Targets != nil {
		if why, out := h.Targets.NotReady[replica]; out {
			return []Issue{unhealthy("%s: not ready: %s", label, why)}
		}
		if _, listed := h.Replicas[replica]; !listed {
			return []Issue{unhealthy("%s: it is not a target of the endpoint", label)}
		}
		return nil
	}
	where := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(h.Balancers)) {
		b := h.Balancers[name]
		if b.Err != nil || b.Problem() != "" {
			continue
		}
		why, out := b.Out[replica]
		if _, listed := h.Replicas[replica]; !listed {
			why, out = "not registered", true
		}
		if out {
			where[why] = append(where[why], name)
		}
	}
	var issues []Issue
	for _, why := range slices.Sorted(maps.Keys(where)) {
		issues = append(issues, unhealthy("%s: %s, reported by %s", label, why, balancersNamed(where[why])))
	}
	return issues
}

func balancersNamed(names []string) string {
	if len(names) == 1 {
		return "balancer " + names[0]
	}
	return "balancers " + enumerated(names)
}
