package kubevip

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
)

var errInUse = errors.New("the endpoint's address is in use")

// inUse returns why the address may not be given to any of the targets: a machine that is none of them answers for
// it. Two machines with one address would each get a part of the requests. Once a target is in rotation, or a static
// pod of kube-vip runs, the Lease says who has the address, and nobody is asked.
func inUse(r endpoint.Registration, seen map[string]machine) error {
	if announces(r) {
		return nil
	}
	whose, established := "none of the targets", false
	var all []neighbors.Answers
	for _, m := range seen {
		if m.Err != nil {
			whose = "none of the targets that could be reached"
			continue
		}
		all = append(all, m.Report.Neighbors)
		if m.Owner.Other(r) {
			continue
		}
		if m.Report.Registered || m.Report.Foreign || m.Report.Address && m.Owner.Exists() {
			return nil
		}
		established = established || m.Owner.Exists()
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if seen[name].Report.Address && seen[name].Err == nil {
			return fmt.Errorf("%w: %s has %s, and no kube-vip of this endpoint has given it to the machine", errInUse, name,
				r.Address)
		}
	}
	if established && len(all) < len(seen) {
		return nil // a replica whose machine cannot be observed may have the address
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if who := neighbors.Stranger(r.Address, seen[name].Report.Neighbors, all...); who != "" {
			return fmt.Errorf("%w: %s sees %s at hardware address %s, which belongs to %s", errInUse, name,
				r.Address, who, whose)
		}
	}
	return nil
}
