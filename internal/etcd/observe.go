package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// observation is the observed state of a cluster at one moment.
type observation struct {
	machines map[string]machine.Observed // by address
	answered bool
	view     membership.View // if answered
	err      error           // why no member answered
}

// observeCluster observes every peer's machine and queries every member, in parallel.
func (cl *cluster) observeCluster(ctx context.Context, s Spec) observation {
	out := observation{machines: map[string]machine.Observed{}}
	var group sync.WaitGroup
	group.Go(func() {
		for _, m := range cl.observeAll(ctx, s) {
			out.machines[m.Address] = m
		}
	})
	group.Go(func() { out.view, out.err = cl.view(ctx, s) })
	group.Wait()
	out.answered = out.err == nil
	return out
}

// view queries the cluster of s for its view, once.
func (cl *cluster) view(ctx context.Context, s Spec) (membership.View, error) {
	clients, err := cl.connect(s)
	if err != nil {
		return membership.View{}, err
	}
	defer clients.Close()
	return clients.View(ctx, cl.addresses(s))
}

// of returns the machine of a member.
func (s observation) of(spec Spec) machine.Observed { return s.machines[spec.Host.Address()] }

// sorted returns the machines by name, then address.
func (s observation) sorted() []machine.Observed {
	all := slices.Collect(maps.Values(s.machines))
	slices.SortFunc(all, func(a, b machine.Observed) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	return all
}

// notObserved returns the problem for a machine that could not be observed before anything
// was changed.
func notObserved(summary string, s Spec, err error) error {
	return &problem.Problem{
		Summary: summary, Host: s.Label(), Cause: err.Error(), Unchanged: problem.Nothing,
		Next: accessRemedy(err), Err: err,
	}
}

// accessRemedy returns the next step for a machine that could not be observed.
func accessRemedy(err error) string {
	var key *host.HostKeyError
	switch {
	case errors.As(err, &key):
		return fmt.Sprintf("compare the key with the machine's console; if it is right, pin it on the provider: "+
			"ssh = { hosts = { %q = { host_key = %q } } }", key.Address, key.Seen)
	case errors.Is(err, host.ErrAuth), errors.Is(err, host.ErrNotRoot):
		return "check ssh on the provider, and that the user is root or may run sudo without a password"
	}
	if errors.Is(err, host.ErrNoAnswer) {
		return host.HangRemedy
	}
	return "recover the machine or its network, then apply again"
}

// observe observes one machine. The member there may have another data directory than that of s: what its unit or its
// resource says.
func (cl *cluster) observe(ctx context.Context, s Spec, name string, h *host.Host) machine.Observed {
	observed := func(dataDir string) machine.Observed {
		s.DataDir = dataDir
		facts, err := cl.machine(h).Observe(ctx, machine.Query(s.Spec))
		return machine.Interpret(name, h.Address(), s.Directory(), facts, err)
	}
	f := observed(cmp.Or(cl.machines()[h.Address()].dataDir, s.DataDir))
	dataDir := f.DataDirInUse()
	if dataDir == "" || dataDir == f.DataDir || s.Host != nil && h.Address() == s.Host.Address() {
		return f
	}
	return observed(dataDir)
}

// observeInTime is observe with an error in time if the machine hangs.
func (cl *cluster) observeInTime(ctx context.Context, s Spec, name string, h *host.Host) machine.Observed {
	var f machine.Observed
	f.Err = host.Within(ctx, cl.pace.Answer, h.Address(), func(ctx context.Context) error {
		f = cl.observe(ctx, s, name, h)
		return f.Err
	})
	return f
}

// observeAll observes all known machines in parallel. One that hangs has an error in time, so that it does not keep the
// changes of other members waiting, which need the turn and the lease. The result is sorted by name, then address.
func (cl *cluster) observeAll(ctx context.Context, s Spec) []machine.Observed {
	known := cl.machines()
	addresses := slices.Sorted(maps.Keys(known))
	machines := make([]machine.Observed, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() { machines[i] = cl.observeInTime(ctx, s, known[address].name, known[address].host) })
	}
	group.Wait()
	slices.SortStableFunc(machines, func(a, b machine.Observed) int { return strings.Compare(a.Name, b.Name) })
	return machines
}

// viewOf queries the member itself, which needs a single connection, and the others only
// if it does not answer. A nil view means that no member answered.
func (cl *cluster) viewOf(ctx context.Context, s Spec) (*membership.View, error) {
	clients, err := cl.connect(s)
	if err != nil {
		return nil, err
	}
	defer clients.Close()
	v, err := clients.OwnView(ctx, s.Host.Address())
	if err != nil {
		v, err = clients.View(ctx, cl.addresses(s))
	}
	switch {
	case errors.Is(err, client.ErrNoAnswer):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &v, nil
}

// clusterIDsFor is how long the Reads of a refresh share one observation of the cluster
// IDs.
const clusterIDsFor = 15 * time.Second

// clusterIDs caches the ID of the cluster that each known machine last reported.
type clusterIDs struct {
	mu   sync.Mutex // held during the queries, so that parallel Reads query once
	at   time.Time
	last map[string]uint64 // by address
}

// served asks every known machine which etcd cluster it serves. Machines that do not
// answer are left out. A refresh asks once for all members.
func (cl *cluster) served(ctx context.Context, clients *client.Clients, s Spec) map[string]uint64 {
	cl.ids.mu.Lock()
	defer cl.ids.mu.Unlock()
	if cl.ids.last != nil && time.Since(cl.ids.at) < clusterIDsFor {
		return cl.ids.last
	}
	ids := clients.ServedClusters(ctx, cl.addresses(s))
	if ctx.Err() == nil {
		cl.ids.at, cl.ids.last = time.Now(), ids
	}
	return ids
}

// requireOneCluster refuses a change while members serve different clusters. If one of them is what a restore has made,
// the error says which one is the former. It also refuses a change of a member that does not answer because
// sshd on its machine forbids TCP forwarding.
func (cl *cluster) requireOneCluster(ctx context.Context, s Spec) error {
	clients, err := cl.connect(s)
	if err != nil {
		return err
	}
	defer clients.Close()
	ids := clients.ServedClusters(ctx, cl.addresses(s))
	if _, answers := ids[s.Host.Address()]; !answers {
		if err := cl.checkAsked(ctx, []string{s.Host.Address()}); err != nil {
			return err
		}
	}
	err = membership.RequireOneCluster(ids)
	var split *problem.Problem
	if errors.As(err, &split) {
		split.Next = cmp.Or(formerNext(s.Bundle.ClusterID, cl.observeAll(ctx, s), ids), split.Next)
	}
	return err
}
