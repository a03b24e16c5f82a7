package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

const section = "--"

// balancerQuery returns the query for everything about one balancer. With probe, it includes
// which other machines answer for the virtual IPs.
func balancerQuery(s Spec, probing bool) host.Query {
	var script host.Script = "ip -o address show\necho " + section + "\n"
	if probing {
		script += neighbors.Probe
	}
	script += "echo " + section + "\n" + statsCommand + "\n"
	q := host.Query{
		Files: []string{askPath, reloadPath, caPath, waitingPath, watchPath},
		Contents: []string{
			endpointPath, backendsPath, recordPath, keepalivedPath, unitDir + haproxyUnit,
			unitDir + keepalivedUnit, unitDir + watchUnit,
		},
		Units:  []string{haproxyUnit, keepalivedUnit, watchUnit},
		Ports:  s.ports(),
		Script: script,
		Vars:   map[string]string{"vips": strings.Join(s.vips(), " ")},
	}
	if s.Inherit {
		addFormer(&q)
	}
	s.facts().AddTo(&q)
	s.liveness("").AddTo(&q) // the same for every host
	return packages.HAProxy().Extend(q)
}

// statsCommand prints HAProxy's statistics of servers.
const statsCommand = askPath + " " + adminSocket + " 'show stat -1 4 -1'"

// backendsQuery returns the query for the owner of one balancer and the replicas in rotation.
func backendsQuery() host.Query {
	return host.Query{
		Contents: []string{endpointPath, backendsPath, recordPath},
		Script:   "echo " + section + "\necho " + section + "\n" + statsCommand,
	}
}

// observe observes every host in parallel. A host that is unreachable, or hangs, is not an error: one of them must not
// keep the others from being read.
func observe(ctx context.Context, s Spec, q host.Query) (map[string]balancer, error) {
	seen := observeAll(ctx, s, q)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var failed []error
	for _, name := range names(seen) {
		err := seen[name].unreachable
		if err != nil && !errors.Is(err, host.ErrUnreachable) && !errors.Is(err, host.ErrNoAnswer) {
			failed = append(failed, fmt.Errorf("observe endpoint host %s: %w", name, err))
			delete(seen, name)
		}
	}
	return seen, errors.Join(failed...)
}

// observeAll observes every host in parallel. In the result, a host that cannot be observed has
// an error.
func observeAll(ctx context.Context, s Spec, q host.Query) map[string]balancer {
	var (
		mu   sync.Mutex
		seen = make(map[string]balancer, len(s.Hosts))
		all  sync.WaitGroup
	)
	for name, machine := range s.Hosts {
		all.Go(func() {
			var facts host.Facts
			err := host.InTime(ctx, machine.Address(), func(ctx context.Context) (err error) {
				facts, err = machine.Observe(ctx, q)
				return err
			})
			b := balancer{unreachable: err}
			if err == nil {
				b = newBalancer(s, facts, machine.Address())
			}
			mu.Lock()
			defer mu.Unlock()
			seen[name] = b
		})
	}
	all.Wait()
	return seen
}

// newBalancer parses the answer to a query. If the machine belongs to another endpoint, only its
// addresses are used.
func newBalancer(s Spec, facts host.Facts, address string) balancer {
	parts := append(strings.Split(facts.Output, section+"\n"), "", "")
	b := balancer{facts: facts, neighbors: neighbors.Parse(parts[1])}
	b.local, b.device = parseAddresses(parts[0], s.Interface, address)
	b.ipv6 = hasIPv6(parts[0], b.device, s.vips())
	b.owner = ownerOf(readRecord(facts.Files[recordPath].Content), facts.Files[endpointPath].Content)
	if !s.owns(b.owner) {
		b.otherEndpoint = "the machine belongs to " + b.owner.String()
		return b
	}
	b.backends = parseBackends(s.Address, facts.Files[backendsPath].Content)
	b.stats, b.unexpected = readStats(parts[2])
	b.answers = strings.HasPrefix(parts[2], "# pxname")
	return b
}

// parseAddresses parses `ip -o address show`. It returns the machine's addresses, and the wanted
// interface or, if wanted is "", the one that has address; "" if there is none.
func parseAddresses(text, wanted, address string) (local []netip.Addr, match string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || (fields[2] != "inet" && fields[2] != "inet6") {
			continue
		}
		prefix, err := netip.ParsePrefix(fields[3])
		if err != nil {
			continue // a peer address of a point-to-point link, never the wanted one
		}
		local = append(local, prefix.Addr())
		if name := device(fields[1]); name != "" && (name == wanted || wanted == "" && prefix.Addr().String() == address) {
			match = name
		}
	}
	return local, match
}

// hasIPv6 reports whether an interface has an IPv6 address that other machines can reach, besides
// the virtual IPs. text is the output of `ip -o address show`.
func hasIPv6(text, on string, vips []string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[2] != "inet6" || on == "" || device(fields[1]) != on {
			continue
		}
		prefix, err := netip.ParsePrefix(fields[3])
		if err == nil && prefix.Addr().IsGlobalUnicast() && !slices.Contains(vips, prefix.Addr().String()) {
			return true
		}
	}
	return false
}
