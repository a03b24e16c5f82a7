package review

import (
	"maps"
	"slices"
)

// mayRestart returns the hosts on which a repair of the endpoint's drift may restart a balancer that works. One that
// was not observed is taken for one that works. An endpoint without balancers has none.
func (e Endpoint) mayRestart() []string {
	hosts := slices.Sorted(maps.Keys(e.Hosts))
	if len(e.Drift) > 0 {
		hosts = driftHosts(e.Hosts, e.Drift)
	}
	return slices.DeleteFunc(hosts, func(host string) bool {
		works, observed := e.Working[host]
		return observed && !works
	})
}

// takesOver reports whether the balancer on a host is known to work, or nothing is known about any.
func (e Endpoint) takesOver(host string) bool { return e.Working[host] || !e.HealthKnown }

// onlyMayRestart reports whether a repair may restart a balancer that works while no other one does.
func (e Endpoint) onlyMayRestart() bool {
	return slices.ContainsFunc(e.mayRestart(), func(host string) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(e.Hosts)), func(other string) bool {
			return other != host && e.takesOver(other)
		})
	})
}
