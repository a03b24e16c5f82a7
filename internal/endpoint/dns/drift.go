package dns

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// drift returns the differences between the records and what the targets need.
func (r *Registrar) drift(records recordSet, seen targets.Observed) []string {
	var drift []string
	if len(records.Addresses) > 0 && records.TTL != r.zone.TTL {
		drift = append(drift, fmt.Sprintf("the records' time to live is %s instead of %s", records.TTL, r.zone.TTL))
	}
	for _, stranger := range r.strangers(records) {
		drift = append(drift, fmt.Sprintf("the name has the address %s, which is not that of a target", stranger))
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if t := seen[name]; !t.MayServe() && records.has(t.Address) {
			drift = append(drift, fmt.Sprintf("the name has the address of %s (%s), which has %s%s", name, t.Address,
				cmp.Or(t.Other, "no replica"), whyKept(records, seen, t)))
		}
	}
	return drift
}

// whyKept returns why no Update removes the record of a target without a replica, and what to do, or "".
func whyKept(records recordSet, seen targets.Observed, t targets.Target) string {
	switch {
	case t.SameCluster:
		return ": its record stays, because it serves the cluster; register the replica at this endpoint (endpoint or " +
			"additional_endpoints), or delete the record on the name server"
	case !anyServes(records, seen):
		return ": its record stays while no replica of the endpoint is ready and has one; create a replica, or delete the " +
			"record on the name server"
	}
	return ""
}

// anyServes reports whether a replica of the endpoint is ready and has a record.
func anyServes(records recordSet, seen targets.Observed) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(seen)), func(t targets.Target) bool {
		return t.Replica.Name != "" && t.Ready() && records.has(t.Address)
	})
}

// unused returns the update that removes the records of targets without a replica of the endpoint. An agent leaves such
// a record while anything there answers as an API server does: an entry that was made by hand, for example. Another
// record leads to a replica that is ready, so the last one stays. A replica of the cluster that is registered at other
// endpoints keeps its record: it serves, and may be about to register here.
func unused(now recordSet, seen targets.Observed) update {
	if !anyServes(now, seen) {
		return update{}
	}
	var u update
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		if ip, err := netip.ParseAddr(t.Address); err == nil && !t.MayServe() && !t.SameCluster && now.has(t.Address) {
			u.remove = append(u.remove, ip)
		}
	}
	return u
}

// removeUnused removes the records of targets without a replica of the endpoint. It returns the drift that is left.
func (r *Registrar) removeUnused(ctx context.Context, seen targets.Observed) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // the observation was cut off
	}
	now, err := r.zone.records(ctx)
	if err == nil && !unused(now, seen).empty() {
		err = r.zone.change(ctx, func(now recordSet) (update, error) { return unused(now, seen), nil })
		if err == nil {
			now, err = r.zone.records(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.drift(now, seen), nil
}
