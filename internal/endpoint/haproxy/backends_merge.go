package haproxy

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The servers of a balancer are the replicas that were registered there. If all balancers
// list the same servers, each with a registration's mark, nothing else is read. For any other
// server, the record on the replica's own machine decides. So a replica that was registered
// while a balancer was down is added there, a replica that left meanwhile is removed, and so is
// a line that was written by hand.

// Registered reports whether the machine at the address has a replica of that name that is
// registered at this endpoint. It returns an error if the machine cannot be read.
type Registered func(ctx context.Context, name string, address netip.AddrPort) (bool, error)

// verdict is what the record on a replica's machine says about a server.
type verdict int

const (
	unasked verdict = iota // the machine cannot be read
	confirmed
	denied
)

// candidate is a server that at least one balancer lists.
type candidate struct {
	server
	marked int // number of balancers that list it once and with a registration's mark
	// disputed means that its registration does not follow from the lists alone.
	disputed bool
}

// candidates returns the servers of all balancers that have a list, and the number of these
// balancers.
func candidates(seen map[string]balancer) (all []candidate, lists int) {
	byServer := map[server]candidate{}
	for _, name := range names(seen) {
		b := seen[name]
		if b.hasList() {
			lists++
		}
		for _, listed := range b.servers {
			c := byServer[listed]
			c.server = listed
			if b.has(listed) {
				c.marked++
			}
			byServer[listed] = c
		}
	}
	all = slices.Collect(maps.Values(byServer))
	slices.SortFunc(all, func(a, b candidate) int { return byName(a.server, b.server) })
	addresses := map[string]int{}
	for _, c := range all {
		addresses[c.Name]++
	}
	for i, c := range all {
		all[i].disputed = c.marked < lists || addresses[c.Name] > 1
	}
	return all, lists
}

// disputed returns the servers that are asked for on their machines.
func disputed(all []candidate) (some []server) {
	for _, c := range all {
		if c.disputed {
			some = append(some, c.server)
		}
	}
	return some
}

// mergeBackends decides, from the result of candidates, which servers every balancer must list, and which ones stay on
// some, by balancer. A mark and the statistics are a balancer's own word. So a server whose machine does not answer is
// added to the others only if most balancers list it. Otherwise it stays where it is listed, if half of them list it or
// that balancer sends it requests. If neither is so, its own next apply registers it again.
func mergeBackends(
	seen map[string]balancer, all []candidate, lists int, verdicts map[server]verdict,
) (wanted []server, kept map[string][]server) {
	best := map[string]candidate{}
	var unconfirmed []candidate
	for _, c := range all {
		switch v := verdicts[c.server]; {
		case !c.disputed, v == confirmed:
		case v == denied:
			continue
		case 2*c.marked <= lists:
			unconfirmed = append(unconfirmed, c)
			continue
		}
		if other, twice := best[c.Name]; !twice || preferred(c, other, verdicts) {
			best[c.Name] = c
		}
	}
	for _, name := range names(best) {
		wanted = append(wanted, best[name].server)
	}
	unconfirmed = slices.DeleteFunc(unconfirmed, func(c candidate) bool { _, known := best[c.Name]; return known })
	return wanted, keptBackends(seen, unconfirmed, lists)
}

// keptBackends returns the unconfirmed servers that stay in the list of each balancer, with one address of a name: the
// one that more balancers list.
func keptBackends(seen map[string]balancer, unconfirmed []candidate, lists int) map[string][]server {
	slices.SortStableFunc(unconfirmed, func(a, b candidate) int { return b.marked - a.marked })
	kept := map[string][]server{}
	for _, c := range unconfirmed {
		for name, b := range seen {
			stays := slices.Contains(b.servers, c.server) && (2*c.marked == lists || b.sends(c.server))
			if !stays || slices.ContainsFunc(kept[name], func(s server) bool { return s.Name == c.Name }) {
				continue
			}
			kept[name] = append(kept[name], c.server)
		}
	}
	return kept
}

// sends reports whether the balancer sends requests to a server.
func (b balancer) sends(to server) bool {
	return slices.ContainsFunc(b.stats, func(running stat) bool {
		return running.Name == to.Name && running.Address == to.Address && running.up()
	})
}

// preferred reports which of two addresses of one replica is used: the one in the record on its
// machine, otherwise the one that more balancers list.
func preferred(a, b candidate, verdicts map[server]verdict) bool {
	if (verdicts[a.server] == confirmed) != (verdicts[b.server] == confirmed) {
		return verdicts[a.server] == confirmed
	}
	return a.marked > b.marked
}

// servers returns the wanted servers of each host's list.
func (s Spec) servers(ctx context.Context, seen map[string]balancer) map[string]string {
	all, lists := candidates(seen)
	wanted, kept := mergeBackends(seen, all, lists, s.askReplicas(ctx, disputed(all)))
	texts := make(map[string]string, len(seen))
	for name, b := range seen {
		registered, others := slices.Clone(wanted), []server(nil)
		for _, k := range kept[name] {
			if b.has(k) {
				registered = append(registered, k)
			} else {
				others = append(others, k)
			}
		}
		texts[name] = renderBackends(s.Address, registered, others)
	}
	return texts
}

// askReplicas reads the records on the machines of servers in parallel.
func (s Spec) askReplicas(ctx context.Context, servers []server) map[server]verdict {
	verdicts := map[server]verdict{}
	if s.Registered == nil {
		return verdicts
	}
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for _, asked := range servers {
		all.Go(func() {
			is, err := s.Registered(ctx, asked.Name, asked.Address)
			v := denied
			switch {
			case err != nil:
				problem.Progress(ctx, "replica %s cannot be asked where it is registered: %v", asked, err)
				v = unasked
			case is:
				v = confirmed
			}
			mu.Lock()
			defer mu.Unlock()
			verdicts[asked] = v
		})
	}
	all.Wait()
	return verdicts
}

// listDrift describes, by host, replicas that other hosts list and this one lacks or lists with
// another address.
func listDrift(seen map[string]balancer) map[string][]string {
	all, _ := candidates(seen)
	missing := map[string][]string{}
	for _, c := range all {
		if c.marked == 0 {
			continue // reported for the host that lists it
		}
		var with, without []string
		for _, name := range names(seen) {
			switch b := seen[name]; {
			case b.has(c.server):
				with = append(with, name)
			case b.hasList() && !slices.Contains(b.servers, c.server):
				without = append(without, name)
			}
		}
		for _, name := range without {
			missing[name] = append(missing[name], backendsPath+": lacks "+c.String()+
				", which is registered on "+strings.Join(with, " and "))
		}
	}
	return missing
}
