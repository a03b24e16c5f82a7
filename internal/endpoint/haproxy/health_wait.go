package haproxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// healthTimeout limits the wait for the first holder. VRRP elects one within a second; the rest
// is for busy machines.
const healthTimeout = 20 * time.Second

// waitUntilHealthy waits until exactly one host holds the VIP and both programs run
// on every reachable host. If a host cannot be reached, that one may hold it.
func waitUntilHealthy(ctx context.Context, s Spec) (observed endpoint.Status, seen map[string]balancer, err error) {
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, healthTimeout, true,
		func(ctx context.Context) (bool, error) {
			now, err := observe(ctx, s, balancerQuery(s, false))
			if err != nil {
				return false, err
			}
			seen = now
			return allHealthy(s, seen), nil
		})
	switch {
	case err == nil:
		return status(s, seen), seen, nil
	case wait.Interrupted(err):
		return status(s, seen), seen, notHealthyError(s, seen)
	}
	return endpoint.Status{}, nil, fmt.Errorf("wait for a holder of %s: %w", s.Address, err)
}

func allHealthy(s Spec, seen map[string]balancer) bool {
	for _, b := range seen {
		if b.unreachable == nil && health(b) != "ok" {
			return false
		}
	}
	switch none := len(holders(s.Address, seen)) == 0; {
	case s.prepares():
		return true // one of the former services has it
	case s.waits():
		return none
	case s.watches() && none:
		return true // another machine has it, or the election has not ended yet
	case unreachableOf(seen) != nil && noHolder(s, seen):
		return true // an unreachable host may have it, which checkReachable finds out
	}
	return oneHolder(s, seen)
}

func notHealthyError(s Spec, seen map[string]balancer) error {
	var lines []string
	for _, name := range names(seen) {
		line := name + ": " + health(seen[name])
		for _, address := range s.vips() {
			if seen[name].holdsVIP(address) {
				line += ", holds " + address
			}
		}
		lines = append(lines, line)
	}
	holder := "exactly one host"
	if s.waits() {
		holder = "no host"
	}
	next := "read the journal of " + haproxyUnit + " and " + keepalivedUnit + " on the hosts below, then apply again"
	if missing := missingVRRP(s, holders(s.Address, seen)); len(missing) > 0 {
		next = "let the hosts below hear each other: each of them has the address because it hears no other. One of the " +
			"rules below is missing on a machine or between them. Then apply again"
		lines = append(lines, missing...)
	}
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " does not answer",
		Cause: fmt.Sprintf("after %s, it is not so that %s holds %s and HAProxy and keepalived run on all", healthTimeout,
			holder, strings.Join(s.vips(), " and ")),
		Unchanged: "the configuration is in place on every reachable host.",
		Next:      next,
		Detail:    "  " + strings.Join(lines, "\n  "),
	}
}
