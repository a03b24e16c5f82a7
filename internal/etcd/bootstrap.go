package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// begin decides for the whole batch and acts on the decision.
func (cl *cluster) begin(b *batch, specs map[string]Spec, s observation) {
	if !s.answered && !errors.Is(s.err, client.ErrNoAnswer) {
		b.fail(specs, s.err)
		return
	}
	fit := map[string]Spec{}
	for name, spec := range specs {
		if err := checkToCreate(spec, s.of(spec)); err != nil {
			b.results[name] = outcome{err: err}
		} else {
			fit[name] = spec
		}
	}
	for name, err := range cl.checkBarriers(b.ctx, fit, s) {
		b.results[name] = outcome{err: notBegun(fit[name], err)}
		delete(fit, name)
	}
	for name, err := range cl.checkConnections(b.ctx, fit, s) {
		b.results[name] = outcome{err: err}
		delete(fit, name)
	}
	if len(fit) == 0 {
		return
	}
	if First(fit).Restore != nil {
		if results := cl.beginRestore(b.ctx, fit, s); results != nil {
			maps.Copy(b.results, results)
			return
		}
	}
	d, s, err := cl.decide(b.ctx, fit, s)
	if err == nil && d.Case == startBootstrap {
		d, err = cl.exceptVolumes(b.ctx, First(fit).Bundle.ClusterID, s, d)
	}
	if err != nil {
		for name, spec := range fit {
			b.results[name] = outcome{err: afterResume(spec, s.of(spec), err)}
		}
		return
	}
	switch d.Case {
	case startJoin:
		for name := range fit {
			b.results[name] = outcome{join: true}
		}
	case startBootstrap:
		maps.Copy(b.results, cl.bootstrap(b.ctx, fit, s, d.Archive))
	default:
		for name, spec := range fit {
			b.results[name] = outcome{err: &problem.Problem{
				Summary: "etcd cluster not bootstrapped", Host: spec.Label(), Cause: d.Reason, Unchanged: problem.Nothing,
				Next: d.Next, Detail: d.Detail,
			}}
		}
	}
}

// checkToCreate returns nil if a member may be created on the machine, or continued there.
func checkToCreate(s Spec, f machine.Observed) error {
	if err := checkMachine(s, f); err != nil {
		return err
	}
	if other := f.OtherRuntime(s.Spec); other != "" {
		return refusal("etcd member not created", s, nil, other, problem.Nothing, "set runtime to what runs the member "+
			"on the machine, and apply; when the member is established, its runtime can be changed")
	}
	return nil
}

// checkMachine returns nil if the machine may have the member.
func checkMachine(s Spec, f machine.Observed) error {
	if !f.Reached() {
		return notObserved("etcd member not created", s, f.Err)
	}
	if f.TakesOver() {
		return refusal("etcd member not created", s, nil, "kubeadm has created the member on the machine", problem.Nothing,
			"import the member; or use another machine")
	}
	if alien := f.Foreign(s.Bundle.ClusterID, s.Directory()); alien != "" {
		return refusal("Machine belongs to another etcd cluster", s, nil, alien, problem.Nothing,
			"use another machine; or, if nothing on this machine is needed, stop etcd on it and move the data directory and "+
				layout.ConfigDir+" away")
	}
	if m := f.Record; m != nil && f.Data && m.Name != s.Name {
		return refusedBy(&takenError{m.Name}, "Machine has another etcd member", s, nil,
			fmt.Sprintf("it has the data of member %q of this cluster", m.Name), problem.Nothing,
			"destroy that member first, or keep its name")
	}
	return requirePreflight(s, f)
}

// checkBarriers returns an error for each machine without a running member on which the other members
// would not reach one.
func (cl *cluster) checkBarriers(ctx context.Context, specs map[string]Spec, s observation) map[string]error {
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		barred = map[string]error{}
	)
	for name, spec := range specs {
		if s.of(spec).Running() || len(openings(spec)) == 0 {
			continue
		}
		all.Go(func() {
			problems, err := cl.machine(spec.Host).Barriers(ctx, barrier.Needs{Openings: openings(spec)})
			if err == nil && len(problems) > 0 {
				err = unsuitable(spec, problems)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				barred[name] = err
			}
		})
	}
	all.Wait()
	return barred
}

// peerPort is the port of membership.PeerURL.
const peerPort = 2380

// openings is what the other members send to a member.
func openings(s Spec) []barrier.Opening {
	var members []netip.Addr
	for _, name := range slices.Sorted(maps.Keys(s.Peers)) {
		address, err := netip.ParseAddr(s.Peers[name].Address())
		if err == nil && name != s.Name {
			members = append(members, address)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return []barrier.Opening{{Protocol: "tcp", Port: peerPort, From: members}}
}

// decide calls decideStart. If members may merely be stopped, it starts those of the
// batch, gives them time to answer, and calls decideStart again.
func (cl *cluster) decide(
	ctx context.Context, specs map[string]Spec, s observation,
) (startDecision, observation, error) {
	names := slices.Sorted(maps.Keys(specs))
	one := specs[names[0]]
	d := cl.decideStart(one, s, names, false)
	if d.Case != startResume {
		return d, s, nil
	}
	problem.Progress(ctx, "etcd %s: members have data, but none answers; starting the members of this "+
		"run and waiting for an answer", one.Bundle.ClusterName)
	if err := cl.resume(ctx, specs, s); err != nil {
		return d, s, err
	}
	if err := cl.waitAnswering(ctx, specs, one); err != nil {
		return d, s, err
	}
	s = cl.observeCluster(ctx, one)
	d = cl.decideStart(one, s, names, true)
	if d.Lost {
		survivors := cl.positions(ctx, one, s)
		d.Next, d.Detail = lostNext(survivors, one.Spec), survivorTable(survivors)
	}
	return d, s, nil
}

// decideStart applies the pure rule, and what only this process knows: that the cluster
// exists, and the machines on which this process has leases.
func (cl *cluster) decideStart(one Spec, s observation, batch []string, resumed bool) startDecision {
	d := decideStart(one.Bundle.ClusterID, one.Directory(), s.sorted(), batch, s.answered, resumed)
	if d.Lost {
		d.Next = lostNext(nil, one.Spec)
	}
	if d.Case != startBootstrap {
		return d
	}
	if evidence := cl.existsBecause(); evidence != "" {
		return startDecision{
			Reason: "this run has evidence that the cluster exists (" + evidence + "), but no member of it answers now: " +
				"an empty cluster would replace it",
			Next: "find out why its members do not answer. The data of a destroyed member is in the archive next to its data " +
				"directory and can be restored. To bootstrap an empty cluster instead, apply again",
		}
	}
	for _, m := range s.sorted() {
		if !cl.lease.leases.Covers(m.Address) {
			return startDecision{
				Reason: "other runs could bootstrap the same cluster at the same time: there is no lease on " + m.Label(),
				Next:   "wait until other runs have ended, then apply again",
			}
		}
	}
	return d
}

// resume starts the stopped members of the batch on the data they have. It changes nothing
// else: whether more may change is decided when they answer.
func (cl *cluster) resume(ctx context.Context, specs map[string]Spec, s observation) error {
	return each(specs, func(_ string, spec Spec) error {
		f := s.of(spec)
		switch {
		case !f.Data || f.Running():
			return nil
		case f.OnVolumeOnly() && spec.Volume != nil:
			return cl.startOnVolume(ctx, spec, f)
		case !f.HasUnit():
			return nil
		}
		if _, err := cl.machine(spec.Host).Change(ctx, host.Change{}, machine.Action{Verb: machine.Resume}); err != nil {
			return fmt.Errorf("start etcd on %s: %w", spec.Label(), err)
		}
		return nil
	})
}

// afterResume returns the failure of resume, or of what follows it, for one member of the batch. An established member
// was started at most, and one without data was not touched.
func afterResume(s Spec, f machine.Observed, err error) error {
	switch {
	case !f.Data:
		return notBegun(s, err)
	case !f.Pending:
		return fmt.Errorf("%w; %w", err, ErrAdopted)
	}
	return err
}

// each runs f for every spec in parallel and joins the errors.
func each(specs map[string]Spec, f func(name string, s Spec) error) error { return eachOf(specs, f) }

// eachOf runs f for every value in parallel and joins the errors.
func eachOf[T any](values map[string]T, f func(name string, value T) error) error {
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for name, value := range values {
		group.Go(func() {
			if err := f(name, value); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// unlisted checks the spec itself: the machine must be among the peers.
func unlisted(s Spec) []string {
	addresses := map[string]string{}
	for name, peer := range s.Peers {
		addresses[name] = peer.Address()
	}
	if err := machine.ValidatePeers(s.Name, s.Host.Address(), addresses); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// requirePreflight returns one problem that lists every failed check of a machine, or nil.
func requirePreflight(s Spec, f machine.Observed) error {
	problems := append(unlisted(s), machine.Preflight(s.Spec, f)...)
	if len(problems) == 0 {
		return nil
	}
	return unsuitable(s, problems)
}

func unsuitable(s Spec, problems []string) error {
	return &problem.Problem{
		Summary:   "Machine is not suitable for an etcd member",
		Host:      s.Label(),
		Cause:     strings.Join(problems, "; "),
		Unchanged: problem.Nothing,
		Next:      "fix this on the machine and apply again",
	}
}

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
	return machine.ID{
		Member:  membership.StaticMemberID(s.PeerURL(), f.token),
		Cluster: membership.StaticClusterID(slices.Collect(maps.Values(f.members)), f.token),
	}
}

// bootstrap creates a cluster of the given members. A member that cannot be prepared is
// left out of the initial cluster, so that the cluster does not start with a dead member.
// Preparing takes minutes, so everything is observed again before the first start.
func (cl *cluster) bootstrap(
	ctx context.Context, specs map[string]Spec, s observation, archive []string,
) map[string]outcome {
	results := map[string]outcome{}
	var mu sync.Mutex
	ready := map[string]newMember{}
	f := newCluster{token: membership.NewToken(First(specs).Bundle.ClusterID), members: map[string]string{}}
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
		return &outcome{err: refusal("etcd cluster not bootstrapped", one, nil, err.Error(), "no etcd was started.",
			"wait until other runs have ended, then apply again")}
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

// First returns the spec whose name sorts first. There is at least one.
func First(specs map[string]Spec) Spec { return specs[slices.Sorted(maps.Keys(specs))[0]] }

// prepare does what is safe before the participants are known. It changes nothing that
// etcd would notice, except that it archives leftovers.
func (cl *cluster) prepare(ctx context.Context, s Spec, f machine.Observed, archive bool) (machine.Issued, error) {
	if archive {
		problem.Progress(ctx, "etcd %s: archiving the data of a bootstrap that was interrupted before it had a quorum",
			s.Name)
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
	change, timers := machine.NewMemberChange(s.Spec, f, n.certs, id, machine.Environment(start.token,
		"new", start.members))
	problem.Progress(ctx, "etcd %s: bootstrapping a cluster with %d members", s.Name, len(start.members))
	m := cl.machine(s.Host)
	if _, err := m.Change(ctx, change, s.startAction(timers)); err != nil {
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
