package etcd

import (
	"context"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// errUnnamed is why a voter was not reached whose machine no resource of the run has. It counts as unreachable.
var errUnnamed error = unnamedError{}

type unnamedError struct{}

func (unnamedError) Error() string {
	return "a survivor lists it as a voter, and no resource of this run has its machine"
}

func (unnamedError) Is(target error) bool { return target == host.ErrUnreachable }

// unnamedVoters returns the voters that survivors list on machines that are not known, as machines that were not
// reached: they may serve with a quorum of their own, which a survivor that is cut off from them cannot see. What a
// survivor has listed counts until the run ends, because a restore stops it.
func (cl *cluster) unnamedVoters(ctx context.Context, one Spec, s observation) []machine.Observed {
	listed := listedElsewhere(s.sorted(), cl.ownLists(ctx, one, s))
	cl.mu.Lock()
	defer cl.mu.Unlock()
	maps.Copy(cl.unnamed, listed)
	maps.DeleteFunc(cl.unnamed, func(address string, _ string) bool { _, known := cl.known[address]; return known })
	var voters []machine.Observed
	for _, address := range slices.Sorted(maps.Keys(cl.unnamed)) {
		voters = append(voters, machine.Observed{Name: cl.unnamed[address], Address: address, Err: errUnnamed})
	}
	return voters
}

// listedElsewhere returns the voters in lists that are on none of the machines, address → name. One that came to
// another machine with its volume is known by its ID. One that is listed at a host name cannot be a member of a
// kube_etcd_member.
func listedElsewhere(machines []machine.Observed, lists map[string]membership.View) map[string]string {
	addresses, ids := map[string]bool{}, map[uint64]bool{}
	for _, m := range machines {
		addresses[m.Address] = true
		if m.Reached() && m.Data && m.Record != nil {
			ids[m.Record.ID()] = true
		}
	}
	elsewhere := map[string]string{}
	for _, list := range lists {
		for _, voter := range list.Voters() {
			var at []string
			for _, url := range voter.PeerURLs {
				if address := membership.HostInURL(url); host.CheckAddressForm(address) == nil {
					at = append(at, address)
				}
			}
			if len(at) > 0 && !ids[voter.ID] && !slices.ContainsFunc(at, func(a string) bool { return addresses[a] }) {
				elsewhere[at[0]] = voter.Name
			}
		}
	}
	return elsewhere
}
