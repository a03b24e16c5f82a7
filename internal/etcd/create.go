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
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create makes the member exist: bootstraps together with the peers that
// arrive within the rendezvous window, or joins as a learner and is promoted.
// It adopts what an earlier call that was cut off has left.
func (c *Clusters) Create(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	cl.comes(s.PeerURL(), +1)
	defer cl.comes(s.PeerURL(), -1)
	cl.creating(s.Name)
	status, err := cl.create(ctx, s)
	cl.created(s.Name, err)
	return status, err
}

func (cl *cluster) create(ctx context.Context, s Spec) (Status, error) {
	for {
		o := cl.arrive(ctx, s)
		if !o.join && o.err != nil {
			return o.status, o.err
		}
		if !o.join {
			return o.status, s.outageEnded(ctx)
		}
		status, err := cl.join(ctx, s)
		if err == nil {
			return status, s.outageEnded(ctx)
		}
		// The cluster that answered can be gone by the time it is this member's
		// turn, when all of its members were destroyed before. Then decide anew.
		if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
			return status, err
		}
		problem.Progress(ctx, "etcd %s: the cluster no longer answers; looking again", s.Name)
	}
}

// ErrAdopted: Create has found its member established, as an earlier run or another
// resource has left it, and failed to bring it to its spec. It serves as it did before,
// and must not be taken for one that is half made. Nor must a learner that was still
// catching up when the time was over.
var ErrAdopted = errors.New("the member was there before and stays: the next apply adopts it again")

// creating notes that a member is on its way into the cluster.
func (cl *cluster) creating(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.creates[name] = nil
}

// created notes what became of it. One that failed is remembered: the run meant to
// go on with it.
func (cl *cluster) created(name string, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if delete(cl.creates, name); err != nil {
		cl.creates[name] = err
	}
}

// Creating names the members of a cluster that this process is making, or has failed
// to make: the cluster is meant to go on.
func (c *Clusters) Creating(clusterID string) []string {
	pending, failed := c.named(clusterID).arrivals()
	var all []string
	for _, name := range append(pending, failed...) {
		all = append(all, fmt.Sprintf("etcd member %q", name))
	}
	return all
}

// arrivals are the members whose Create is under way, and those whose Create has
// failed in this process.
func (cl *cluster) arrivals() (pending, failed []string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(cl.creates)) {
		if cl.creates[name] == nil {
			pending = append(pending, name)
		} else {
			failed = append(failed, name)
		}
	}
	return pending, failed
}

// newborn is a member of a cluster that is founded.
type newborn struct {
	spec  Spec
	found found
	certs issued
}

// founding is a cluster that is about to be founded, in etcd's terms.
type founding struct {
	token   string
	members map[string]string // name → peer URL
}

func (f founding) id(s Spec) memberID {
	return memberID{Member: membership.StaticMemberID(s.PeerURL(), f.token), Cluster: membership.StaticClusterID(slices.Collect(maps.Values(f.members)), f.token)}
}

// bootstrap makes a new cluster of the given members. Who cannot even be
// prepared is left out of the initial cluster, so that it does not start with a dead member.
// Preparing takes minutes, so everything is surveyed again before the first start.
func (cl *cluster) bootstrap(ctx context.Context, specs map[string]Spec, s survey, archive []string) map[string]outcome {
	results := map[string]outcome{}
	var mu sync.Mutex
	ready := map[string]newborn{}
	f := founding{token: membership.NewToken(anyOf(specs).Bundle.ClusterID), members: map[string]string{}}
	_ = each(specs, func(name string, spec Spec) error { // errors are in results
		c, err := cl.prepare(ctx, spec, s.of(spec), slices.Contains(archive, name))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			results[name] = outcome{err: err}
			return nil
		}
		ready[name], f.members[name] = newborn{spec, s.of(spec), c}, spec.PeerURL()
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
	_ = eachOf(ready, func(name string, n newborn) error { // errors are in results
		status, err := cl.bear(ctx, n, f)
		mu.Lock()
		defer mu.Unlock()
		results[name] = outcome{status: status, err: err}
		return nil
	})
	return results
}

// stillNew surveys everything again right before the first start: nil where the
// cluster may be founded, else what becomes of the members.
func (cl *cluster) stillNew(ctx context.Context, ready map[string]newborn) *outcome {
	names := slices.Sorted(maps.Keys(ready))
	one := ready[names[0]].spec
	if err := cl.lease.leases.Restore(ctx); err != nil {
		return &outcome{err: refusal("etcd cluster not bootstrapped", one, nil, err.Error(), "no etcd was started.", "wait for other runs to end, and apply again")}
	}
	s := cl.survey(ctx, one)
	if !s.answered && !errors.Is(s.silence, client.ErrNoAnswer) {
		return &outcome{err: s.silence}
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

// anyOf is the spec that comes first by name.
func anyOf(specs map[string]Spec) Spec { return specs[slices.Sorted(maps.Keys(specs))[0]] }

// prepare does what may be done before it is known who takes part: it changes
// nothing that etcd would see, except that leftovers are archived.
func (cl *cluster) prepare(ctx context.Context, s Spec, f found, archive bool) (issued, error) {
	if archive {
		problem.Progress(ctx, "etcd %s: archiving a bootstrap that was cut off before it had a quorum", s.Name)
		if err := cl.retire(ctx, s); err != nil {
			return issued{}, err
		}
	}
	if err := cl.install(ctx, s, f); err != nil {
		return issued{}, err
	}
	return certificates(s, f, time.Now())
}

// retire stops the unit and archives the data, never wipes it.
func (cl *cluster) retire(ctx context.Context, s Spec) error {
	if _, err := cl.machine(s.Host).Change(ctx, host.Change{}, s.away(doRetire, true)); err != nil {
		return fmt.Errorf("archive data of %s: %w", s.label(), err)
	}
	return nil
}

func (cl *cluster) install(ctx context.Context, s Spec, f found) error {
	if len(missingArtifacts(s, f)) == 0 {
		return nil
	}
	problem.Progress(ctx, "etcd %s: installing etcd %s", s.Name, s.Version)
	if _, err := cl.machine(s.Host).Install(ctx, s.Source, artifacts(s.Version)); err != nil {
		return &problem.Problem{
			Summary: "etcd not installed", Host: s.label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.", Next: "check the artifact source of the provider and the version",
		}
	}
	return nil
}

// bear starts one member of a new cluster and sees it established.
func (cl *cluster) bear(ctx context.Context, n newborn, start founding) (Status, error) {
	s, f, id := n.spec, n.found, start.id(n.spec)
	change, timer := birth(s, f, n.certs, id, environment(start.token, "new", start.members))
	problem.Progress(ctx, "etcd %s: bootstrapping a cluster of %d", s.Name, len(start.members))
	m := cl.machine(s.Host)
	if _, err := m.Change(ctx, change, action{Verb: doStart, Timer: timer}); err != nil {
		return Status{}, fmt.Errorf("start etcd on %s: %w", s.label(), err)
	}
	conv, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer conv.Close()
	v, err := cl.serving(ctx, conv, s, id.Member)
	if err != nil {
		return Status{}, err
	}
	if _, err := m.Change(ctx, host.Change{Remove: []string{envPath}}, action{}); err != nil {
		return Status{}, fmt.Errorf("establish etcd on %s: %w", s.label(), err)
	}
	problem.Progress(ctx, "etcd %s: serving", s.Name)
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool { return file.Path == envPath })
	return describe(s, f.after(s, change), &v), nil
}
