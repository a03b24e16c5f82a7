package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Registered describes, by balancer, the differences from the state after Register; nil means
// that the replica is in rotation everywhere. A balancer that cannot be reached is skipped. An
// observation of the last 15 seconds is reused.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	replica, err := parseServer(name, address)
	if err != nil {
		return nil, r.operationError("looked up", name, "", err)
	}
	seen := r.cache.get(r.registration, time.Now())
	if seen == nil {
		if seen, err = r.observe(ctx); err != nil {
			return nil, r.operationError("looked up", name, "", err)
		}
		r.cache.put(r.registration, seen, time.Now())
	}
	if len(reachableOf(seen)) == 0 {
		return nil, r.operationError("looked up", name, "", unreachableOf(seen))
	}
	return unregistered(replica, seen), nil
}

// OutOfRotation returns the replicas to which a balancer sends no new requests, with their
// addresses. A balancer that cannot be reached is skipped.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	seen, err := r.observe(ctx)
	if err != nil {
		return nil, r.operationError("looked for", "", "", err)
	}
	out := map[string]string{}
	for _, name := range names(seen) {
		for _, replica := range seen[name].stats {
			if !replica.up() {
				out[replica.Name] = replica.Address.String()
			}
		}
	}
	return out, nil
}

// Replicas returns all replicas that a balancer lists or still sends requests to, whatever their
// state, with their addresses. A balancer that does not answer is skipped if another one does.
func (r *Registrar) Replicas(ctx context.Context) (map[string]string, error) {
	seen, err := r.observeReachable(ctx)
	if err != nil {
		return nil, err
	}
	return replicaAddresses(seen), nil
}

// ListedAt returns the addresses of the machines at which a balancer lists a replica, or still sends requests to it. A
// balancer that does not answer is skipped if another one does.
func (r *Registrar) ListedAt(ctx context.Context, name string) ([]string, error) {
	seen, err := r.observeReachable(ctx)
	if err != nil {
		return nil, err
	}
	return listedAt(name, seen), nil
}

func listedAt(name string, seen map[string]balancer) []string {
	var all []string
	for _, b := range seen {
		for _, listed := range b.servers {
			if listed.Name == name {
				all = append(all, listed.Address.Addr().String())
			}
		}
		for _, running := range b.stats {
			if running.Name == name {
				all = append(all, running.Address.Addr().String())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// observeReachable returns the balancers that can be observed. It is an error if there is none.
func (r *Registrar) observeReachable(ctx context.Context) (map[string]balancer, error) {
	seen, err := r.observe(ctx)
	reachable := reachableOf(seen)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(reachable) == 0 {
		return nil, r.notObservedError(errors.Join(err, unreachableOf(seen)))
	}
	if err := errors.Join(err, unreachableOf(seen)); err != nil {
		problem.Progress(ctx, "skipped: %v", err)
	}
	return reachable, nil
}

// Serving returns the replicas to which a balancer sends new requests, name → host:port, from the
// cache or a new observation.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	seen := r.cache.get(r.registration, time.Now())
	if seen == nil {
		var err error
		if seen, err = r.observe(ctx); err != nil {
			return nil, r.operationError("looked up", "", "", err)
		}
		r.cache.put(r.registration, seen, time.Now())
	}
	all := map[string]string{}
	for _, b := range seen {
		for _, s := range b.stats {
			if s.up() {
				all[s.Name] = s.Address.String()
			}
		}
	}
	return all, nil
}

// replicaAddresses joins the servers in the balancers' files and those of the running HAProxy,
// which differ after an interrupted change. The files take precedence.
func replicaAddresses(seen map[string]balancer) map[string]string {
	all := map[string]string{}
	for _, name := range names(seen) {
		for _, running := range seen[name].stats {
			all[running.Name] = running.Address.String()
		}
	}
	for _, replica := range slices.Backward(allServers(seen)) { // the first of two addresses takes precedence
		all[replica.Name] = replica.Address.String()
	}
	return all
}

// unregistered compares each reachable balancer with the state after Register.
func unregistered(replica server, seen map[string]balancer) []string {
	var differences []string
	for _, name := range names(seen) {
		if why := seen[name].outOfRotation(replica); why != "" {
			differences = append(differences, name+": "+why)
		}
	}
	return differences
}

// outOfRotation describes why a balancer that answers sends no requests to a replica, or
// returns "".
func (b balancer) outOfRotation(replica server) string {
	listed := slices.IndexFunc(b.servers, func(s server) bool { return s.Name == replica.Name })
	running := slices.IndexFunc(b.stats, func(s stat) bool { return s.Name == replica.Name })
	switch {
	case b.unreachable != nil:
	case b.otherEndpoint != "":
		return b.otherEndpoint
	case listed < 0:
		return "not registered"
	case b.servers[listed].Address != replica.Address:
		return fmt.Sprintf("registered as %s, wanted %s", b.servers[listed].Address, replica.Address)
	case !b.answers:
		return "HAProxy does not answer"
	case running < 0 || b.stats[running].Address != replica.Address:
		return "HAProxy runs with an older list of replicas"
	case !b.stats[running].up():
		return fmt.Sprintf("out of rotation: %s %s", b.stats[running].Status, b.stats[running].Check)
	}
	return ""
}

// allServers returns the servers of all hosts without duplicates of name and address.
func allServers(seen map[string]balancer) []server {
	var all []server
	for _, b := range seen {
		all = append(all, b.servers...)
	}
	slices.SortFunc(all, byName)
	return slices.Compact(all)
}
