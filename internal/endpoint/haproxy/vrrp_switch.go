package haproxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// sendsMulticast reports whether a configuration of keepalived sends advertisements by multicast.
func sendsMulticast(config string) bool {
	return strings.Contains(config, "mcast_src_ip") && !strings.Contains(config, "unicast_peer")
}

// hears reports whether a keepalived with this configuration hears those that are configured for s: it sends
// advertisements in the same way, and for the same virtual router.
func (s Spec) hears(config string) bool {
	ids := parseFormer(config).routerIDs
	return sendsMulticast(config) == s.multicast() && slices.Equal(ids, []int{s.routerID()})
}

// toStop returns the hosts whose keepalived stops before another one sends advertisements in another
// way, or for another virtual router: two hosts that do so differently do not hear each other, and both take the
// address. The holder continues, or the first one if none of them had the address: one may have got it since, from a
// host that leaves. It is decided by what the hosts have, so that an interrupted switch is continued, or reverted.
func toStop(s Spec, seen map[string]balancer) []string {
	switching, holder := false, ""
	var running []string
	for _, name := range names(seen) {
		b := seen[name]
		config, installed := b.facts.Files[keepalivedPath]
		switching = switching || installed && !s.hears(config.Content)
		switch {
		case !b.unitActive(keepalivedUnit):
		case b.holdsVIP(s.Address) && holder == "":
			holder = name
		default:
			running = append(running, name)
		}
	}
	switch {
	case !switching || len(running) == 0:
		return nil
	case holder == "":
		return running[1:]
	}
	return running
}

// stopToSwitch stops keepalived on the hosts that toStop returns. It returns the hosts as they are
// then.
func stopToSwitch(ctx context.Context, s Spec, seen map[string]balancer) (map[string]balancer, error) {
	stop := toStop(s, seen)
	err := onHosts(stop, func(name string) error {
		problem.Progress(ctx, "stop keepalived on %s until the holder of the address sends advertisements as wanted", name)
		_, err := s.Hosts[name].Run(ctx, host.Command{Script: withOwner(stopScript), Vars: s.ownerVars()})
		if err != nil {
			return fmt.Errorf("stop keepalived on %s of endpoint %s: %w", s.label(name), s.Address, err)
		}
		return nil
	})
	stopped := maps.Clone(seen)
	for _, name := range stop {
		b := stopped[name]
		b.facts.Units = maps.Clone(b.facts.Units)
		b.facts.Units[keepalivedUnit] = host.UnitState{Load: "loaded", Active: "inactive"}
		stopped[name] = b
	}
	return stopped, err
}
