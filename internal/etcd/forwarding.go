package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkForwarding returns an error for each machine whose sshd forbids that a member there is asked. Without an answer
// it would be started and count as one that does not serve.
func (cl *cluster) checkForwarding(ctx context.Context, specs map[string]Spec) map[string]error {
	var mu sync.Mutex
	refused := map[string]error{}
	_ = each(specs, func(name string, spec Spec) error { // never fails
		addresses := machine.AskedAt(spec.Host.Address())
		if err := host.CheckForwarding(ctx, cl.machine(spec.Host), addresses...); err != nil {
			mu.Lock()
			defer mu.Unlock()
			refused[name] = unsuitable(spec, []string{
				fmt.Sprintf("%v; the member is asked through SSH, at %s", err, strings.Join(addresses, ", ")),
			})
		}
		return nil
	})
	return refused
}

// unasked names the machines whose member runs but cannot be queried, because sshd forbids the connection to its
// metrics listener; "" if there are none.
func (cl *cluster) unasked(ctx context.Context, s observation) string {
	var all []string
	known := cl.machines()
	for _, m := range s.sorted() {
		if s.answered || !m.Reached() || !m.Running() {
			continue
		}
		if host.CheckForwarding(ctx, cl.machine(known[m.Address].host), release.MetricsAddress) != nil {
			all = append(all, m.Label())
		}
	}
	return strings.Join(all, ", ")
}

// allowForwarding is the next step for members that cannot be asked because sshd on their machines forbids it.
func allowForwarding(where string) string {
	return "allow TCP forwarding to " + release.MetricsAddress + " and to ports 2379 and 2380 of the machine in sshd on " +
		where +
		" (AllowTcpForwarding, PermitOpen), then apply again"
}

// forwardingNext returns allowForwarding for survivors that could not be asked because of sshd; "" if there are none.
func forwardingNext(survivors []survivor) string {
	var all []string
	for _, s := range survivors {
		if errors.Is(s.Err, host.ErrForwarding) {
			all = append(all, s.Name+" ("+s.Address+")")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return allowForwarding(strings.Join(all, ", "))
}

// checkAsked returns an error if sshd forbids the connections to a member, so that its silence says nothing. addresses
// are those of the member.
func (cl *cluster) checkAsked(ctx context.Context, addresses []string) error {
	for address, known := range cl.machines() {
		if !slices.Contains(addresses, address) {
			continue
		}
		if err := host.CheckForwarding(ctx, cl.machine(known.host), machine.AskedAt(address)[0]); err != nil {
			return &problem.Problem{
				Summary: "etcd member cannot be asked", Host: known.name + " (" + address + ")", Cause: err.Error(), Err: err,
				Unchanged: problem.Nothing, Next: allowForwarding(address),
			}
		}
	}
	return nil
}
