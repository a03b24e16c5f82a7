package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// newMember is a member of a cluster that is being bootstrapped.
type newMember struct {
	spec     Spec
	observed machine.Observed
	certs    machine.Issued
}

// newCluster describes a cluster that is about to be bootstrapped, in etcd's terms.
type newCluster struct {
	token   string
	members map[string]string // name → peer URL
}

func (f newCluster) id(s Spec) machine.ID {
	return machine.ID{Member: membership.StaticMemberID(s.PeerURL(), f.token), Cluster: membership.StaticClusterID(slices.Collect(maps.Values(f.members)), f.token)}
}

// bootstrap creates a cluster of the given members. A member that cannot be prepared is
// left out of the initial cluster, so that the cluster does not start with a dead member.
// Preparing takes minutes, so everything is observed again before the first start.
func (cl *cluster) bootstrap(ctx context.Context, specs map[string]Spec, s observation, archive []string) map[string]outcome {
	results := map[string]outcome{}
	var mu sync.Mutex
	ready := map[string]newMember{}
	f := newCluster{token: membership.NewToken(anyOf(specs).Bundle.ClusterID), members: map[string]string{}}
	_ = each(specs, func(name string, spec Spec) error { // errors are in results
		c, err := cl.prepare(ctx, spec, s.of(spec), slices.Contains(archive, name))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			results[name] = outcome{err: err}
			return nil
		}
		ready[name], f.members[name] = newMember{spec, s.of(spec), c}, spec.PeerURL()
		return nil
	})
	if len(ready) == 0 {
		return results
	}
	if again := cl.stillNew(ctx, ready); again != nil {
		for name := range ready {
			results[name] = *again
		}
		return results
	}
	_ = eachOf(ready, func(name string, n newMember) error { // errors are in results
		status, err := cl.startNewMember(ctx, n, f)
		mu.Lock()
		defer mu.Unlock()
		results[name] = outcome{status: status, err: err}
		return nil
	})
	return results
}

// stillNew observes everything again right before the first start. It returns nil if the
// cluster may be bootstrapped, else the outcome of the members.
func (cl *cluster) stillNew(ctx context.Context, ready map[string]newMember) *outcome {
	names := slices.Sorted(maps.Keys(ready))
	one := ready[names[0]].spec
	if err := cl.lease.leases.Restore(ctx); err != nil {
		return &outcome{err: refusal("etcd cluster not bootstrapped", one, nil, err.Error(), "no etcd was started.", "wait until other runs have ended, then apply again")}
	}
	s := cl.observeCluster(ctx, one)
	if !s.answered && !errors.Is(s.err, client.ErrNoAnswer) {
		return &outcome{err: s.err}
	}
	switch d := cl.decideStart(one, s, names, true); d.Case {
	case startBootstrap:
		return nil
	case startJoin:
		return &outcome{join: true}
	default:
		return &outcome{err: refusal("etcd cluster not bootstrapped", one, nil, d.Reason, "no etcd was started.", d.Next)}
	}
}

// anyOf returns the spec whose name sorts first.
func anyOf(specs map[string]Spec) Spec { return specs[slices.Sorted(maps.Keys(specs))[0]] }

// prepare does what is safe before the participants are known. It changes nothing that
// etcd would notice, except that it archives leftovers.
func (cl *cluster) prepare(ctx context.Context, s Spec, f machine.Observed, archive bool) (machine.Issued, error) {
	if archive {
		problem.Progress(ctx, "etcd %s: archiving the data of a bootstrap that was interrupted before it had a quorum", s.Name)
		if err := machine.ArchiveData(ctx, cl.machine(s.Host), s.Spec); err != nil {
			return machine.Issued{}, err
		}
	}
	if err := machine.Install(ctx, cl.machine(s.Host), s.Spec, f); err != nil {
		return machine.Issued{}, err
	}
	return machine.Certificates(s.Spec, f, time.Now())
}

// startNewMember starts one member of a new cluster and waits until it is established.
func (cl *cluster) startNewMember(ctx context.Context, n newMember, start newCluster) (Status, error) {
	s, f, id := n.spec, n.observed, start.id(n.spec)
	change, timer := machine.NewMemberChange(s.Spec, f, n.certs, id, machine.Environment(start.token, "new", start.members))
	problem.Progress(ctx, "etcd %s: bootstrapping a cluster with %d members", s.Name, len(start.members))
	m := cl.machine(s.Host)
	if _, err := m.Change(ctx, change, machine.Action{Verb: machine.Start, Timer: timer}); err != nil {
		return Status{}, fmt.Errorf("start etcd on %s: %w", s.Label(), err)
	}
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	v, err := cl.waitHealthy(ctx, clients, s, id.Member)
	if err != nil {
		return Status{}, err
	}
	if _, err := m.Change(ctx, host.Change{Remove: []string{layout.EnvPath}}, machine.Action{}); err != nil {
		return Status{}, fmt.Errorf("complete the start of etcd on %s: %w", s.Label(), err)
	}
	problem.Progress(ctx, "etcd %s: serving", s.Name)
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool { return file.Path == layout.EnvPath })
	return describe(s, f.After(s.Spec, change), &v), nil
}
