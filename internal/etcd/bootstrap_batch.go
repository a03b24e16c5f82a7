package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// batch is the members whose Create calls arrived together, which in Terraform's graph
// means in parallel. They are observed once. If there is no cluster yet, they bootstrap it
// together.
type batch struct {
	specs   map[string]Spec // by member name; guarded by cluster.mu until closed
	arrived chan struct{}   // receives a value after each arrival
	ended   chan struct{}   // closed when results is complete
	results map[string]outcome

	ctx  context.Context // ends when the context of any participant ends
	stop context.CancelFunc
}

// outcome is the result for one member of a batch.
type outcome struct {
	join   bool // the cluster exists: the caller joins it
	status Status
	err    error
}

// enterBatch adds s to the open batch, or opens one, and waits for the outcome.
func (cl *cluster) enterBatch(ctx context.Context, s Spec) outcome {
	cl.mu.Lock()
	b := cl.openBatch
	if b == nil {
		b = &batch{specs: map[string]Spec{}, arrived: make(chan struct{}, 1), ended: make(chan struct{}), results: map[string]outcome{}}
		b.ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
		cl.openBatch = b
		go cl.run(b)
	}
	if _, twice := b.specs[s.Name]; twice {
		cl.mu.Unlock()
		return outcome{err: &problem.Problem{
			Summary: "Two etcd members have the same name", Attribute: "name", Host: s.Label(),
			Cause: fmt.Sprintf("another member %q of the same cluster is being created in this run", s.Name), Unchanged: problem.Nothing, Next: "give each member a unique name",
		}}
	}
	b.specs[s.Name] = s
	cl.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default: // an arrival is already pending
	}
	unhook := context.AfterFunc(ctx, b.stop)
	defer unhook()
	<-b.ended
	return b.results[s.Name]
}

// run processes a batch from its first arrival to its outcome. Batches and all other
// membership changes of a cluster are serialized.
func (cl *cluster) run(b *batch) {
	defer b.stop()
	defer close(b.ended)
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(b.ctx); err != nil {
		b.fail(cl.close(b), err)
		return
	}
	b.ctx = cl.withLease(b.ctx)
	cl.mu.Lock()
	first := b.any()
	cl.mu.Unlock()
	s := cl.observeCluster(b.ctx, first)
	if errors.Is(s.err, client.ErrNoAnswer) {
		cl.collect(b)
	}
	specs := cl.close(b)
	switch err := requireSamePeers(specs); {
	case err != nil:
		b.fail(specs, err)
		return
	case errors.Is(s.err, client.ErrNoAnswer): // late arrivals may know further machines
		if err := cl.lease.take(b.ctx, cl); err != nil {
			b.fail(specs, err)
			return
		}
		s = cl.observeCluster(b.ctx, first)
	}
	cl.begin(b, specs, s)
}

// any returns one of the specs that have arrived.
func (b *batch) any() Spec { return anyOf(b.specs) }

// fail sets the same error for each of specs.
func (b *batch) fail(specs map[string]Spec, err error) {
	for name := range specs {
		b.results[name] = outcome{err: err}
	}
}

// collect waits until every peer has arrived, or until no peer has arrived for
// pace.BatchWindow.
func (cl *cluster) collect(b *batch) {
	quiet := time.NewTimer(cl.pace.BatchWindow)
	defer quiet.Stop()
	for {
		cl.mu.Lock()
		missing := false
		for name := range b.any().Peers {
			if _, here := b.specs[name]; !here {
				missing = true
			}
		}
		cl.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-b.arrived:
			quiet.Reset(cl.pace.BatchWindow)
		case <-quiet.C:
			return
		case <-b.ctx.Done():
			return
		}
	}
}

// close closes the batch to arrivals: the next one opens a new batch.
func (cl *cluster) close(b *batch) map[string]Spec {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.openBatch == b {
		cl.openBatch = nil
	}
	return b.specs
}

// begin decides for the whole batch and acts on the decision.
func (cl *cluster) begin(b *batch, specs map[string]Spec, s observation) {
	if !s.answered && !errors.Is(s.err, client.ErrNoAnswer) {
		b.fail(specs, s.err)
		return
	}
	fit := map[string]Spec{}
	for name, spec := range specs {
		if err := checkMachine(spec, s.of(spec)); err != nil {
			b.results[name] = outcome{err: err}
		} else {
			fit[name] = spec
		}
	}
	if len(fit) == 0 {
		return
	}
	d, s, err := cl.decide(b.ctx, fit, s)
	if err != nil {
		b.fail(fit, err)
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
			b.results[name] = outcome{err: refusal("etcd cluster not bootstrapped", spec, nil, d.Reason, problem.Nothing, d.Next)}
		}
	}
}

// checkMachine returns nil if a member may be installed on the machine.
func checkMachine(s Spec, f machine.Observed) error {
	if !f.Reached() {
		return notObserved("etcd member not created", s, f.Err)
	}
	if alien := f.Foreign(s.Bundle.ClusterID, s.Directory()); alien != "" {
		return refusal("Machine belongs to another etcd cluster", s, nil, alien, problem.Nothing,
			"use another machine; or, if nothing on this machine is needed, stop etcd on it and move the data directory and "+layout.ConfigDir+" away")
	}
	if m := f.Record; m != nil && f.Data && m.Name != s.Name {
		return refusal("Machine has another etcd member", s, nil, fmt.Sprintf("it has the data of member %q of this cluster", m.Name), problem.Nothing,
			"destroy that member first, or keep its name")
	}
	return requirePreflight(s, f)
}

// decide calls decideStart. If members may merely be stopped, it starts those of the
// batch, gives them time to answer, and calls decideStart again.
func (cl *cluster) decide(ctx context.Context, specs map[string]Spec, s observation) (startDecision, observation, error) {
	names := slices.Sorted(maps.Keys(specs))
	one := specs[names[0]]
	d := cl.decideStart(one, s, names, false)
	if d.Case != startResume {
		return d, s, nil
	}
	problem.Progress(ctx, "etcd %s: members have data, but none answers; starting the members of this run and waiting for an answer", one.Bundle.ClusterName)
	if err := cl.resume(ctx, specs, s); err != nil {
		return d, s, err
	}
	if err := cl.waitAnswering(ctx, specs, one); err != nil {
		return d, s, err
	}
	s = cl.observeCluster(ctx, one)
	return cl.decideStart(one, s, names, true), s, nil
}

// decideStart applies the pure rule, and what only this process knows: that the cluster
// exists, and the machines on which this process has leases.
func (cl *cluster) decideStart(one Spec, s observation, batch []string, resumed bool) startDecision {
	d := decideStart(one.Bundle.ClusterID, one.Directory(), s.sorted(), batch, s.answered, resumed)
	if d.Case != startBootstrap {
		return d
	}
	if evidence := cl.existsBecause(); evidence != "" {
		return startDecision{
			Reason: "this run has evidence that the cluster exists (" + evidence + "), but no member of it answers now: an empty cluster would replace it",
			Next: "find out why its members do not answer. The data of a destroyed member is in the archive next to its data directory and can be restored. " +
				"To bootstrap an empty cluster instead, apply again",
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
		_, unit := f.Facts.Files[layout.UnitPath]
		if !f.Data || f.Running() || !unit {
			return nil
		}
		if _, err := cl.machine(spec.Host).Change(ctx, host.Change{}, machine.Action{Verb: machine.Start}); err != nil {
			return fmt.Errorf("start etcd on %s: %w", spec.Label(), err)
		}
		return nil
	})
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
	faults := append(unlisted(s), machine.Preflight(s.Spec, f)...)
	if len(faults) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "Machine is not suitable for an etcd member",
		Host:      s.Label(),
		Cause:     strings.Join(faults, "; "),
		Unchanged: problem.Nothing,
		Next:      "fix this on the machine and apply again",
	}
}
