package etcd

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// openOutage is the outage of one member that is to be defragmented.
type openOutage struct {
	member uint64
	outage Outage // nil: nothing has to be drained
	end    func() // the change of the member is over
}

// beginOutage announces the outage of a member before it is defragmented, after that of another one has ended. The
// Update of another member would announce its own outage, but that Update may not be in the plan. The turn is kept
// until endOutage.
func (m *alarmRepair) beginOutage(ctx context.Context, v membership.View, target membership.Member) error {
	if err := m.endOutage(ctx); err != nil {
		return err
	}
	o := &openOutage{member: target.ID, outage: m.s.Outage, end: func() {}}
	if target.Name != m.s.Name {
		if o.outage = nil; m.s.OutageOf != nil {
			h, known := m.cl.machines()[target.PeerAddress()]
			if !known {
				return m.refuse(v, fmt.Errorf("%s has no space either, and its machine is not known, so that an API server there "+
					"cannot be drained while it is defragmented", target.Label()),
					"if it belongs to the cluster, add it to peers, which is how its machine is known, then apply again")
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
