package etcd

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

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

// askSurvivors adds what survivors say to the input of the decision: the voters that they list on machines that are not
// known, as machines that were not reached. These may serve with a quorum of their own, which a survivor that is cut
// off from them cannot see. One that does is asked for its list too, through the known machines. What a survivor has
// listed counts until the run ends, because a restore stops it.
func (cl *cluster) askSurvivors(ctx context.Context, one Spec, s observation, in restoreInput) restoreInput {
	lists, unasked := cl.ownLists(ctx, one, s)
	unnamed := cl.noteUnnamed(votersElsewhere(s.sorted(), lists))
	in.Machines = append(slices.Clone(in.Machines), unnamed...)
	if in.Unasked == "" {
		in.Unasked = strings.Join(unasked, ", ")
	}
	if in.Serves == "" {
		in.Serves = cl.servesUnnamed(ctx, one, unnamed)
	}
	return in
}

// noteUnnamed adds voters, address → name, to those of this run, and returns all whose machines are not known by now.
func (cl *cluster) noteUnnamed(listed map[string]string) []machine.Observed {
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

// servesUnnamed describes a member on one of these machines that answers with a quorum; "" if none does.
func (cl *cluster) servesUnnamed(ctx context.Context, one Spec, unnamed []machine.Observed) string {
	clients, err := cl.connect(one)
	if err != nil {
		return ""
	}
	defer clients.Close()
	serving := make([]string, len(unnamed))
	var group sync.WaitGroup
	for i, m := range unnamed {
		group.Go(func() {
			if _, err := clients.MemberList(ctx, m.Address); err == nil {
				serving[i] = "the member " + m.Label() + ", whose machine no resource of this run has, answers with a quorum"
			}
		})
	}
	group.Wait()
	return cmp.Or(serving...)
}

// votersElsewhere returns the voters in lists that are on none of the machines, address → name. One that came to
// another machine with its volume is known by its ID. One that is listed at a host name cannot be a member of a
// kube_etcd_member.
func votersElsewhere(machines []machine.Observed, lists map[string]membership.View) map[string]string {
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
