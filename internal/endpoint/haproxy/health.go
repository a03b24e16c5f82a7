package haproxy

import (
	"context"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Health is the observed state of a registration's balancers. A balancer that cannot be observed
// has an error instead.
type Health struct {
	Address   string              // the virtual IP
	Others    []string            // the further ones
	Balancers map[string]Balancer // by name
	Replicas  map[string]string   // those that any balancer lists or sends requests to, name → host:port
}

// Balancer is one machine of an endpoint.
type Balancer struct {
	Address    string
	Err        error  // why it could not be observed; nothing below is known then
	Present    bool   // it has files of the endpoint
	HAProxy    string // systemd's ActiveState; "" if there is no such unit
	Keepalived string
	Answers    bool     // HAProxy's administration socket answers
	Holds      []string // those virtual IPs that it has
	Backends   map[string]Backend
	Out        map[string]string // replica → why it is not in rotation here
	Other      string            // the other endpoint that it belongs to; "" if none
}

// Backend is the state of a replica in HAProxy.
type Backend struct {
	Address  string
	Status   string // "UP", "DOWN", "DRAIN", "MAINT", "UP 1/3", …
	Check    string // "L7OK", "L4CON", …
	Last     string // describes the result of the last check
	Sessions int
}

// Health observes every balancer in parallel. It never fails: a balancer that cannot be observed
// before ctx ends has an error in the result.
func (r *Registrar) Health(ctx context.Context) Health {
	s := r.spec()
	return healthOf(s, observeAll(ctx, s, healthQuery()))
}

// healthQuery returns the query for what can be read without the wanted endpoint.
func healthQuery() host.Query {
	q := backendsQuery()
	q.Files = []string{endpointPath, unitDir + haproxyUnit, unitDir + keepalivedUnit}
	q.Units = []string{haproxyUnit, keepalivedUnit}
	q.Script = "ip -o address show\n" + q.Script
	return q
}

// healthOf converts an observation.
func healthOf(s Spec, seen map[string]balancer) Health {
	out := Health{
		Address: s.Address, Others: s.vips()[1:], Balancers: map[string]Balancer{},
		Replicas: replicaAddresses(reachableOf(seen)),
	}
	for name, b := range seen {
		result := Balancer{Address: s.Hosts[name].Address(), Err: b.unreachable, Other: b.otherEndpoint}
		if b.unreachable == nil {
			result.Present, result.Answers = b.installed(), b.answers
			result.Holds = slices.DeleteFunc(s.vips(), func(address string) bool { return !b.holdsVIP(address) })
			result.HAProxy, result.Keepalived = b.unitState(haproxyUnit), b.unitState(keepalivedUnit)
			result.Backends, result.Out = map[string]Backend{}, map[string]string{}
			for _, seen := range b.stats {
				result.Backends[seen.Name] = Backend{
					Address: seen.Address.String(), Status: seen.Status, Check: seen.Check,
					Last: seen.Last, Sessions: seen.Sessions,
				}
			}
			for replica, address := range out.Replicas {
				if at, err := parseServer(replica, address); err == nil {
					result.addReason(replica, b.outOfRotation(at))
				}
			}
		}
		out.Balancers[name] = result
	}
	return out
}

func (b *Balancer) addReason(replica, why string) {
	if why != "" {
		b.Out[replica] = why
	}
}

// unitState returns systemd's ActiveState, or "" if there is no such unit.
func (b balancer) unitState(unit string) string {
	if state := b.facts.Units[unit]; state.Load != "not-found" && state.Active != "" {
		return activeState(state)
	}
	return ""
}

// Holders returns the balancers that have the virtual IP, sorted.
func (h Health) Holders() []string { return h.HoldersOf(h.Address) }

// HoldersOf returns the balancers that have one of the virtual IPs, sorted.
func (h Health) HoldersOf(address string) []string {
	return slices.DeleteFunc(names(h.Balancers), func(name string) bool {
		return !slices.Contains(h.Balancers[name].Holds, address)
	})
}

// HoldersOfAll returns the balancers that have every virtual IP, sorted.
func (h Health) HoldersOfAll() []string {
	return slices.DeleteFunc(h.Holders(), func(name string) bool {
		return len(h.Balancers[name].Holds) <= len(h.Others)
	})
}

// Unobserved returns the balancers that could not be observed, sorted.
func (h Health) Unobserved() []string {
	var unobserved []string
	for _, name := range names(h.Balancers) {
		if h.Balancers[name].Err != nil {
			unobserved = append(unobserved, name)
		}
	}
	return unobserved
}

// Problem describes what is wrong with an observed balancer, or "".
func (b Balancer) Problem() string {
	switch {
	case b.Other != "":
		return b.Other
	case !b.Present:
		return "the endpoint is not set up there"
	}
	var words []string
	for _, unit := range []struct{ name, state string }{{haproxyUnit, b.HAProxy}, {keepalivedUnit, b.Keepalived}} {
		if unit.state != "active" && unit.state != "reloading" {
			words = append(words, unit.name+" is "+orDefault(unit.state, "missing"))
		}
	}
	if len(words) == 0 && !b.Answers {
		words = append(words, "HAProxy does not answer")
	}
	return strings.Join(words, "; ")
}

// Registered reports whether a replica is in rotation on every observed balancer,
// and on at least one.
func (h Health) Registered(replica string) bool {
	asked := false
	for _, b := range h.Balancers {
		if b.Err != nil {
			continue
		}
		if _, out := b.Out[replica]; out {
			return false
		}
		asked = true
	}
	_, listed := h.Replicas[replica]
	return asked && listed
}
