package dns

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// succeed returns the update for a replica that leaves for good with the last record of a target, at address. The
// record of another replica that is ready takes its place, and the name has none after the last replica only. If no
// other one is ready, the record stays (errLastRecord). admit lets the agent of a replica add its record, and reports
// whether it has one: a replica that leaves too has none.
func succeed(
	name string, address netip.Addr, seen targets.Observed, admit func(targets.Target) bool,
) (update, error) {
	alone := true
	for _, other := range slices.Sorted(maps.Keys(seen)) {
		t := seen[other]
		if other == name || !t.Member() {
			continue
		}
		alone = false
		if ip, err := netip.ParseAddr(t.Address); err == nil && t.Unreachable == nil && t.Ready() && admit(t) {
			return update{add: []netip.Addr{ip}, remove: []netip.Addr{address}}, nil
		}
	}
	if !alone {
		return update{}, fmt.Errorf("%w: %s", errLastRecord, address)
	}
	return update{remove: []netip.Addr{address}}, nil
}

// succeed observes the replicas and calls the function of that name.
func (r *Registrar) succeed(ctx context.Context, name string, address netip.Addr) (update, error) {
	return succeed(name, address, r.Observe(ctx), func(t targets.Target) bool {
		there, err := r.release(ctx, t)
		return err == nil && there
	})
}
