package etcd

import (
	"context"
	"errors"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// openOutage is the outage of one member that is to be defragmented.
type openOutage struct {
	member uint64
	outage Outage // nil: nothing has to be drained
	end    func() // the change of the member is over
}

// announce announces the outage of a member before it is defragmented, after that of another one has ended. A
// neighbour whose outage cannot begin is left as it is, until its own alarm is raised.
func (m *alarmRepair) announce(ctx context.Context, target membership.Member) error {
	if err := m.endOutage(ctx); err != nil {
		return err
	}
	err := m.beginOutage(ctx, target)
	if err == nil || target.Name == m.s.Name || ctx.Err() != nil {
		return err
	}
	problem.Progress(ctx, "etcd %s: it has no space either, and is not defragmented: %s", target.Label(),
		problem.Line(err.Error()))
	m.attempts.Defragmented[target.ID] = true
	return m.endOutage(ctx)
}

// beginOutage announces the outage of a member. The Update of another member would announce its own outage, but that
// Update may not be in the plan. The turn is kept until endOutage.
func (m *alarmRepair) beginOutage(ctx context.Context, target membership.Member) error {
	o := &openOutage{member: target.ID, outage: m.s.Outage, end: func() {}}
	if target.Name != m.s.Name {
		if o.outage = nil; m.s.OutageOf != nil {
			h, known := m.cl.machines()[target.PeerAddress()]
			if !known {
				return errors.New("its machine is not known, so that an API server there cannot leave rotation: add it to peers " +
					"if it belongs to the cluster")
			}
			o.outage, o.end = m.s.OutageOf(h.host)
		}
	}
	m.outage = o
	m.turn.Keep()
	m.since.End()
	if o.outage == nil {
		return nil
	}
	return o.outage.Begins(ctx)
}

// endOutage announces the end of the outage that beginOutage has announced, if there is one.
func (m *alarmRepair) endOutage(ctx context.Context) error {
	if m.outage == nil {
		return nil
	}
	o := m.outage
	m.outage = nil
	defer m.turn.Free()
	defer o.end()
	return endOutage(ctx, o.outage)
}
