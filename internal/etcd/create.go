package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create creates the member. It bootstraps together with the peers that arrive within the
// rendezvous window, or joins as a learner and is promoted. It adopts what an earlier,
// interrupted call has left.
func (c *Clusters) Create(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	cl.countJoining(s.PeerURL(), +1)
	defer cl.countJoining(s.PeerURL(), -1)
	cl.creating(s.Name)
	var status Status
	err := checkPod(s)
	for again := err == nil; again; {
		status, err = cl.createNow(ctx, s)
		again, err = cl.afterRemoval(ctx, s, err)
	}
	cl.created(s.Name, err)
	return status, err
}

func (cl *cluster) createNow(ctx context.Context, s Spec) (Status, error) {
	if err := cl.takeVolume(ctx, s); err != nil {
		return Status{}, err
	}
	if err := cl.takeUp(ctx, s); err != nil {
		return Status{}, err
	}
	return cl.create(ctx, s)
}

// checkPod returns an error before the first change if the manifest cannot have the image or the patch.
func checkPod(s Spec) error {
	attribute, err := "image", s.CheckImage()
	if err == nil {
		attribute, err = "patch", s.CheckPatch()
	}
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Invalid " + attribute, Attribute: attribute, Host: s.Label(), Cause: err.Error(),
		Unchanged: problem.Nothing, Next: "correct the " + attribute + ", then apply again", Err: err,
	}
}

func (cl *cluster) create(ctx context.Context, s Spec) (Status, error) {
	for {
		o := cl.enterBatch(ctx, s)
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
		// The cluster that answered can be gone when this member's turn comes, if all of
		// its members were destroyed before. In that case, decide again.
		if !errors.Is(err, client.ErrNoAnswer) || ctx.Err() != nil {
			return status, err
		}
		problem.Progress(ctx, "etcd %s: the cluster no longer answers; observing again", s.Name)
	}
}

// ErrAdopted means that Create found its member established by an earlier run or another
// resource, and failed to bring it to its spec. The member serves as before and must not
// be treated as half created. The same applies to a learner that was still catching up at
// the deadline.
var ErrAdopted = errors.New("the member existed before and is kept: the next apply adopts it again")

// batch is the members whose Create calls arrived together, which in Terraform's graph
// means in parallel. They are observed once. If there is no cluster yet, they bootstrap it
// together.
type batch struct {
	specs   map[string]Spec // by member name; guarded by cluster.mu until closed
	arrived chan struct{}   // receives a value after each arrival
	ended   chan struct{}   // closed when results is complete
	results map[string]outcome

	ctx  context.Context // ends when the context of any participant that has not left ends
	stop context.CancelFunc
}

// outcome is the result for one member of a batch.
type outcome struct {
	join   bool // the cluster exists: the caller joins it
	status Status
	err    error
}

// enterBatch adds s to the open batch, or opens one, and waits for the outcome. If its time is over before the batch
// is closed, the others go on without it.
func (cl *cluster) enterBatch(ctx context.Context, s Spec) outcome {
	cl.mu.Lock()
	b := cl.openBatch
	if b == nil {
		b = &batch{
			specs: map[string]Spec{}, arrived: make(chan struct{}, 1), ended: make(chan struct{}),
			results: map[string]outcome{},
		}
		b.ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
		cl.openBatch = b
		go cl.run(b)
	}
	if _, twice := b.specs[s.Name]; twice {
		cl.mu.Unlock()
		return outcome{err: &problem.Problem{
			Summary: "Two etcd members have the same name", Attribute: "name", Host: s.Label(),
			Cause:     fmt.Sprintf("another member %q of the same cluster is being created in this run", s.Name),
			Unchanged: problem.Nothing, Next: "give each member a unique name",
		}}
	}
	b.specs[s.Name] = s
	cl.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default: // an arrival is already pending
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		if cl.leave(b, s.Name) {
			return outcome{err: notBegun(s, ctx.Err())}
		}
		b.stop()
		<-b.ended
	}
	return b.results[s.Name]
}

// leave takes a member out of a batch that is open and has others, and reports whether it did.
func (cl *cluster) leave(b *batch, name string) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.openBatch != b || len(b.specs) == 1 {
		return false
	}
	delete(b.specs, name)
	return true
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
	first := b.first()
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
func (b *batch) first() Spec { return First(b.specs) }

// fail sets the same error, from before the first change, for each of specs.
func (b *batch) fail(specs map[string]Spec, err error) {
	for name, s := range specs {
		b.results[name] = outcome{err: notBegun(s, err)}
	}
}

// notBegun returns the failure of a step before the first change as a problem that says so: see host.NotBegun.
func notBegun(s Spec, err error) error {
	return host.NotBegun(err, problem.Problem{
		Summary: "Change of etcd member not begun", Host: s.Label(), Next: accessRemedy(err),
	})
}

// collect waits until every peer has arrived, or until no peer has arrived for a window of
// the pace.
func (cl *cluster) collect(b *batch) {
	window := cl.pace.BatchWindow
	cl.mu.Lock()
	if b.first().Restore != nil {
		window = cl.pace.RestoreWindow
	}
	cl.mu.Unlock()
	quiet := time.NewTimer(window)
	defer quiet.Stop()
	for {
		cl.mu.Lock()
		missing := false
		for name := range b.first().Peers {
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
			quiet.Reset(window)
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

// requireSamePeers refuses members that are created together and disagree about the
// address of a peer, or about a restore.
func requireSamePeers(specs map[string]Spec) error {
	at := map[string]string{}
	restore := First(specs).Restore
	for _, spec := range specs {
		if !reflect.DeepEqual(spec.Restore, restore) {
			return &problem.Problem{
				Summary: "Conflicting restores of etcd members", Attribute: "restore", Host: spec.Label(),
				Cause:     "another member of the cluster has other settings in restore",
				Unchanged: problem.Nothing, Next: "give every member of the cluster the same restore",
			}
		}
		for name, h := range spec.Peers {
			if known, ok := at[name]; ok && known != h.Address() {
				return &problem.Problem{
					Summary: "Conflicting peers of etcd members", Attribute: "peers",
					Cause:     fmt.Sprintf("peer %q has address %s for one member and %s for another", name, known, h.Address()),
					Unchanged: problem.Nothing, Next: "give every member of the cluster the same peers",
				}
			}
			at[name] = h.Address()
		}
	}
	return nil
}
