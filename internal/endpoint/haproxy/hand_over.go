package haproxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkTakeOver refuses to take an address over from a machine that does not serve this control plane
// there. Whoever has the address passes TLS through, so clients of it see an API server's certificate.
// It has been issued with the address in it, because the replicas have been registered there.
func checkTakeOver(ctx context.Context, s Spec, seen map[string]balancer) error {
	if s.Inherit {
		return checkInherit(ctx, s, seen)
	}
	if s.HandOver != Prepare && !s.watches() {
		return nil
	}
	for _, address := range s.vips() {
		name := askedAbout(address, seen)
		if name == "" {
			continue
		}
		target := net.JoinHostPort(address, strconv.Itoa(s.port()))
		at, err := netip.ParseAddrPort(target)
		if err != nil {
			return refusedError(s, "created", err)
		}
		chain, err := certificateOf(ctx, s.Hosts[name], at)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if reason := foreign(address, s.Authorities, chain, err, time.Now()); reason != "" {
			return notTakenOverError(s, address, name, seen[name].neighbors.By[address], reason)
		}
		problem.Progress(ctx, "%s is at hardware address %s, which serves this control plane", address,
			seen[name].neighbors.By[address])
	}
	return nil
}

// refuseToWait refuses to let go of an address that the endpoint has: nobody would have it.
func refuseToWait(s Spec, seen map[string]balancer) error {
	have := slices.DeleteFunc(holders(s.Address, seen), func(name string) bool {
		return s.Inherit && seen[name].formerGives(s)
	})
	if s.HandOver != Prepare || len(have) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not changed", Attribute: "haproxy.hand_over",
		Host: strings.Join(have, ", "),
		Cause: fmt.Sprintf("the host has the address, and with hand_over = %q none has it: clients would lose the API",
			Prepare),
		Unchanged: problem.Nothing,
		Next: fmt.Sprintf("remove hand_over; to give the address to a balancer that waits for it, set hand_over = %q (guide "+
			"Topologies)", Release),
	}
}

// askedAbout returns a host that sees a virtual IP at another machine, or "" if none does, or one of
// the hosts has it.
func askedAbout(address string, seen map[string]balancer) string {
	if len(holders(address, seen)) > 0 {
		return ""
	}
	for _, name := range names(seen) {
		if stranger(address, name, seen) != "" {
			return name
		}
	}
	return ""
}

// foreign says why the certificate at an address is not one that the cluster's API servers present to
// clients of that address, or returns "".
func foreign(address, authorities string, chain []*x509.Certificate, failed error, now time.Time) string {
	switch {
	case failed != nil:
		return "it does not answer with a certificate there: " + problem.Line(failed.Error())
	case !pki.Accepts(authorities, chain, pki.Server, now):
		return "the certificate that it presents there is not of this cluster's authority"
	case chain[0].VerifyHostname(address) != nil:
		return "the certificate that it presents there does not name the address"
	}
	return ""
}

func notTakenOverError(s Spec, address, name, hardware, reason string) error {
	return &problem.Problem{
		Summary: "Endpoint " + s.Address + " not created",
		Host:    s.label(name),
		Cause: fmt.Sprintf("%s is in use: %s sees it at hardware address %s, and what has it does not serve this "+
			"control plane: %s", address, name, hardware, reason),
		Unchanged: problem.Nothing,
		Next: "to move from a balancer that has the address, add this endpoint while the replicas are registered at an " +
			"endpoint with the same address (external), and while the balancer passes TLS through to them; otherwise use an " +
			"address that is free",
	}
}
