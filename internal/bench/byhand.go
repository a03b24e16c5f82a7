package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// operator performs the day-2 operations like the script of an operator who knows that nothing
// goes wrong. It is the lower bound of day 2.
//
// Everything is prepared: programs, certificates, units and flags are written, the connections
// to the machines are open, and keepalived on all machines knows all five. The script waits
// only for what is unavoidable: etcd's own rules, a learner in sync, an API server that is
// ready. The API server's own shutdown delay is included, as it is for Terraform; the steps that
// stop an API server are measured without it too.
//
// What makes the steps safe is omitted: observing the machines and the cluster first, the rules
// about quorum and the last backend, waiting for the sessions of a drained replica, waiting for
// the load balancers to see a replica healthy, handing over leadership, archives of data, and
// everything that allows an interrupted step to continue. Terraform's additional work is
// omitted too: programs and files of removed parts are deleted (so those of a replaced member
// are installed again), the other machines learn of their new peers, and everything is read
// before and after.
type operator struct {
	pool    *host.Pool
	three   []*lab.Machine
	five    []*lab.Machine
	joining []*lab.Machine // the two that are not among the first three
}

// operator returns an operator with open connections.
func (b *bench) operator(ctx context.Context) (operator, error) {
	pool, err := b.pool()
	if err != nil {
		return operator{}, err
	}
	o := operator{pool: pool, three: b.first(few), five: b.first(many), joining: b.first(many)[few:]}
	if err := o.do(ctx, action{o.five, "true"}); err != nil {
		pool.Close()
		return operator{}, err
	}
	return o, nil
}

// byHand measures the manual steps, from five machines to three, and then those that stop an
// API server again, without its shutdown delay.
func (b *bench) byHand(ctx context.Context, _ int, took times) error {
	o, err := b.operator(ctx)
	if err != nil {
		return err
	}
	defer o.pool.Close()
	fast := func(s step) step { s.name += withoutDelay; return s }
	grow := step{name: grown, leaves: many, act: o.grow, after: func(ctx context.Context) error {
		return o.do(ctx, action{o.five, withoutShutdownDelay})
	}}
	shrink, replace := step{name: shrunk, leaves: few, act: o.shrink}, o.replaceByScript(b)
	change := step{name: changed, leaves: few, act: o.change}
	steps, err := b.runSteps(ctx, "by hand",
		[]step{shrink, replace, change, grow, fast(shrink), fast(o.replaceByScript(b)), fast(change)})
	took.add(steps.by("by hand"))
	return err
}

// action is one script on several machines at the same time.
type action struct {
	machines []*lab.Machine
	script   string
}

// do runs the actions one after the other.
func (o operator) do(ctx context.Context, actions ...action) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for _, a := range actions {
		group, ctx := errgroup.WithContext(ctx)
		for _, m := range a.machines {
			group.Go(func() error {
				_, err := o.pool.Host(host.Target{Address: m.Address.String()}).Run(ctx,
					host.Command{Script: host.Script(a.script), Vars: variables(m)})
				if err != nil {
					return fmt.Errorf("on %s: %w", m.Name, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// grow adds two machines: the members one after the other, as etcd requires, then both replicas
// in parallel.
func (o operator) grow(ctx context.Context) error {
	actions := []action{{o.joining, startBalancer}}
	for _, m := range o.joining {
		actions = append(actions, action{[]*lab.Machine{m}, joinMember(o.three[0])})
	}
	return o.do(ctx, append(actions,
		action{o.joining, startReplica},
		action{o.five, addServers(o.joining...)})...)
}

// shrink removes the same two machines.
func (o operator) shrink(ctx context.Context) error {
	actions := []action{{o.five, removeServers(o.joining...)}, {o.joining, stopReplica}}
	for _, m := range o.joining {
		actions = append(actions,
			action{o.three[:1], removeMember(m)},
			action{[]*lab.Machine{m}, stopMember})
	}
	return o.do(ctx, append(actions, action{o.joining, stopBalancer})...)
}

// replaceByScript returns the step that replaces a member that is not the leader, whose replica
// cannot serve without it.
func (o operator) replaceByScript(b *bench) step {
	var old, other *lab.Machine
	return step{
		name:   replaced,
		leaves: few,
		before: func(ctx context.Context) (err error) {
			if old, err = b.follower(ctx); err != nil {
				return err
			}
			other = o.three[0]
			if other.Name == old.Name {
				other = o.three[1]
			}
			return nil
		},
		act: func(ctx context.Context) error {
			here := []*lab.Machine{old}
			return o.do(ctx,
				action{o.three, removeServers(old)},
				action{here, stopReplica},
				action{[]*lab.Machine{other}, removeMember(old)},
				action{here, stopMember},
				action{here, joinMember(other)},
				action{here, startReplica},
				action{o.three, addServers(old)})
		},
	}
}

// change restarts the API servers one after the other, each out of rotation.
func (o operator) change(ctx context.Context) error {
	var actions []action
	for _, m := range o.three {
		actions = append(actions,
			action{o.three, setState(m, "drain")},
			action{[]*lab.Machine{m}, restartAPIServer},
			action{o.three, setState(m, "ready")})
	}
	return o.do(ctx, actions...)
}
