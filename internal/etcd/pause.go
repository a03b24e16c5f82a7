package etcd

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// PausedMember is a member whose caller changes what runs it. A nil one is that of a machine that has none.
type PausedMember struct {
	change  updating
	version string // that it ran before
	stopped bool
}

// PauseMember calls do in the turn of the member that is a static pod of a machine, with the cluster's lease: no other
// member is changed meanwhile, by any process. do gets nil if the machine has no such member. at returns the machine at
// an address: the lease is on those of a majority.
func (c *Clusters) PauseMember(
	ctx context.Context, h *host.Host, at func(address string) *host.Host, b *pki.Bundle,
	do func(context.Context, *PausedMember) error,
) error {
	cl := c.named(b.ClusterID)
	name, dataDir, err := podOn(ctx, cl.machine(h), b.ClusterID)
	if err != nil {
		return fmt.Errorf("look for an etcd member on %s: %w", h.Address(), err)
	}
	if name == "" {
		return do(ctx, nil)
	}
	s := Spec{Spec: machine.Spec{Name: name, Host: h, Bundle: b, Runtime: machine.StaticPod, DataDir: dataDir}}
	clients, err := cl.connectThrough(b, append(cl.hosts(), h))
	if err != nil {
		return err
	}
	defer clients.Close()
	v, err := clients.View(ctx, []string{h.Address()})
	if err != nil {
		return refusedBy(err, "etcd member not stopped", s, nil, err.Error(), problem.Nothing,
			"recover a quorum of the members, then apply again")
	}
	cl.noteMembers(v, at)
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the turn of etcd member %s: %w", s.Label(), err)
	}
	ctx = cl.withLease(ctx)
	p := &PausedMember{change: updating{cl: cl, s: s, turn: turn, clients: clients}}
	if err := p.mayStop(ctx); err != nil { // before do stops what depends on the member
		return err
	}
	return do(ctx, p)
}

// podOn returns the name and the data directory of the member of a cluster that is a static pod of a machine; "" if
// there is none. A member of kubeadm that is not taken over is an error: nothing says when it may stop.
func podOn(ctx context.Context, m machine.Machine, clusterID string) (name, dataDir string, err error) {
	facts, err := m.Observe(ctx, host.Query{
		Contents: []string{layout.RecordPath, layout.UnitPath, layout.PodPath}, Files: machine.RuntimePaths,
	})
	if err != nil {
		return "", "", err
	}
	if _, pod := facts.Files[layout.PodPath]; !pod {
		return "", "", notTakenOver(m.Address(), facts)
	}
	held, err := machine.ReadRecord(facts.Files[layout.RecordPath].Content)
	switch {
	case err != nil:
		return "", "", err
	case held.ClusterID != clusterID:
		return "", "", fmt.Errorf("%s is there, and %s does not say that it is a member of this cluster", layout.PodPath,
			layout.RecordPath)
	}
	at, err := machine.InstallationIn(machine.DefinitionIn(facts.Files))
	return held.Name, at.DataDir, err
}

// notTakenOver returns an error if the kubelet of the machine at an address runs a member that the provider does not
// manage.
func notTakenOver(address string, facts host.Facts) error {
	if _, placed := facts.Files[machine.ManifestPath]; !placed {
		return nil
	}
	return &problem.Problem{
		Summary: "etcd member not stopped", Host: address, Unchanged: problem.Nothing,
		Cause: fmt.Sprintf("%s is there, and no kube_etcd_member manages the member that it runs, which may have to stop",
			machine.ManifestPath),
		Next: "import the kube_etcd_member of this machine and apply that first, or drop manage_kubelet",
	}
}

// noteMembers records the machines of members that no resource has named in this process.
func (cl *cluster) noteMembers(v membership.View, at func(address string) *host.Host) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, m := range v.Members {
		if address := m.PeerAddress(); cl.known[address].host == nil {
			cl.known[address] = knownMachine{name: m.Name, host: at(address)}
		}
	}
}

// mayStop waits until the rules of a restart allow that the member stops: the others have a quorum, and one of them
// leads.
func (p *PausedMember) mayStop(ctx context.Context) error {
	c := &p.change
	c.since.End()
	for {
		c.f = c.cl.observe(ctx, c.s, c.s.Name, c.s.Host)
		if !c.f.Reached() {
			return notObserved("etcd member not stopped", c.s, c.f.Err)
		}
		v, err := c.cl.observeToChange(ctx, c.clients, c.s)
		if err != nil {
			return err
		}
		entry := machine.EntryOf(&v, c.s.Spec)
		if entry == nil {
			return refusal("etcd member not stopped", c.s, &v, "the member is not in the cluster's member list",
				problem.Nothing, "apply the member first")
		}
		p.version = entry.Version
		if ready, err := c.readyToRestart(ctx, &v); ready || err != nil {
			return err
		}
	}
}

// Stop stops the member, once the rules of a restart allow that. The caller has stopped what depends on the member, so
// no other member has a turn until this one serves again.
func (p *PausedMember) Stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	c := &p.change
	c.turn.Keep()
	if err := p.mayStop(ctx); err != nil {
		return err
	}
	p.stopped = true // also if this fails: it may be half-way
	problem.Progress(ctx, "etcd %s: stopping", c.s.Name)
	if _, err := c.cl.machine(c.s.Host).Change(ctx, host.Change{}, machine.Action{Verb: machine.Pause}); err != nil {
		return fmt.Errorf("stop etcd on %s: %w", c.s.Label(), err)
	}
	return nil
}

// Start starts the member if Stop has stopped it, and waits until it serves.
func (p *PausedMember) Start(ctx context.Context) error {
	if p == nil || !p.stopped {
		return nil
	}
	c := &p.change
	problem.Progress(ctx, "etcd %s: starting", c.s.Name)
	if _, err := c.cl.machine(c.s.Host).Change(ctx, host.Change{}, machine.Action{Verb: machine.Resume}); err != nil {
		return fmt.Errorf("start etcd on %s: %w", c.s.Label(), err)
	}
	if err := c.waitServing(ctx, p.version); err != nil {
		return c.cl.notServing(ctx, c.s, err)
	}
	c.cl.noteRestart()
	return nil
}
