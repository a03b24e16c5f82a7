package haproxy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed reach.sh
var reachScript host.Script

const (
	// reachTimeout is how long the network may take to learn where the VIP is.
	reachTimeout  = 10 * time.Second
	reachInterval = 500 * time.Millisecond
)

// checkReachable connects to every VIP from every other host. A network that drops the ARP replies
// or the packets for an address that it has not assigned, as clouds do, would otherwise leave an
// endpoint that only its holder reaches. With a single host nobody can check it. If no host that can be reached has the
// VIP, they find out whether one of the others does.
func checkReachable(ctx context.Context, s Spec, seen map[string]balancer) error {
	if s.HandOver != "" && len(holders(s.Address, seen)) == 0 {
		return nil // what others reach at the address is another machine
	}
	others := slices.DeleteFunc(names(reachableOf(seen)), func(name string) bool {
		return seen[name].holdsVIP(s.Address)
	})
	var failed map[string]string
	unreached := s.vips()
	reached, err := poll.Until(ctx, reachInterval, reachTimeout, func() (bool, error) {
		for len(unreached) > 0 {
			var err error
			if failed, err = unreachedFrom(ctx, s, unreached[0], others); err != nil || len(failed) > 0 {
				return false, err
			}
			unreached = unreached[1:]
		}
		return true, nil
	})
	if err != nil || reached {
		return err
	}
	return notReachedError(s, unreached[0], seen, failed)
}

// unreachedFrom returns the hosts that do not reach a VIP, each with the state of its
// neighbour entry. A host that cannot be asked is not among them.
func unreachedFrom(ctx context.Context, s Spec, vip string, others []string) (map[string]string, error) {
	var mu sync.Mutex
	failed := map[string]string{}
	err := onHosts(others, func(name string) error {
		output, err := s.Hosts[name].Run(ctx, host.Command{
			Script: reachScript, Vars: map[string]string{"vip": vip, "port": strconv.Itoa(s.port())},
		})
		if errors.Is(err, host.ErrUnreachable) {
			return nil
		} else if err != nil {
			return fmt.Errorf("connect from %s to %s: %w", s.label(name), vip, err)
		}
		word, neighbour := answer(output)
		if word == "reached" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		failed[name] = printable(strings.TrimSpace(neighbour))
		return nil
	})
	return failed, err
}

func notReachedError(s Spec, vip string, seen map[string]balancer, failed map[string]string) error {
	holder := strings.Join(holders(vip, seen), ", ")
	var lines []string
	cause := "packets to it are dropped"
	for _, name := range names(failed) {
		line := fmt.Sprintf("%s: no connection to port %d", s.label(name), s.port())
		if failed[name] == "" || failed[name] == "FAILED" || failed[name] == "INCOMPLETE" {
			line += ", and no answer to who has the address (neighbour entry " + orDefault(failed[name], "missing") + ")"
			cause = "the network does not pass on who has it"
		}
		lines = append(lines, line)
	}
	if holder == "" {
		return &problem.Problem{
			Summary: "Endpoint " + s.Address + " does not answer", Host: s.labels(names(lostOf(seen))),
			Cause: fmt.Sprintf("no host that can be reached has %s, and %s do not reach it on a host that cannot", vip,
				strings.Join(names(failed), ", ")),
			Unchanged: "the configuration is in place on every reachable host.",
			Next:      "make them reachable, or read the journal of " + keepalivedUnit + " on the others, then apply again",
			Detail:    "  " + strings.Join(lines, "\n  "),
		}
	}
	return &problem.Problem{
		Summary: "Endpoint " + vip + " cannot be reached from other machines",
		Host:    holder,
		Cause: fmt.Sprintf("%s holds the address and serves it, but %s do not reach it: %s", holder,
			strings.Join(names(failed), ", "), cause),
		Unchanged: "the configuration is in place on every reachable host.",
		Next: fmt.Sprintf("open TCP port %d on the balancers; let the network pass ARP (or neighbour discovery) for %s, "+
			"which clouds and port security often forbid for addresses that they have not assigned; then apply again, or "+
			"use a balancer of the platform (external)", s.port(), vip),
		Detail: "  " + strings.Join(lines, "\n  "),
	}
}
