package etcd

import (
	"context"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// approach is one member's wait, in its turn, until everything else that
// depends on the etcd authority is near the generation of its spec.
type approach struct {
	cl    *cluster
	s     Spec
	turn  *turn
	conv  *client.Clients
	joins bool // a member that comes anew

	summary   string // of a refusal
	unchanged string // of a refusal

	since    lapse     // of the wait for what is in the way
	inTheWay *obstacle // nil: nothing is waited for
}

// reached reports whether the member may take the files of its generation now.
// If not, it has waited a moment, or let others go first: what stands in the
// way may be changed in the same run. When nothing has moved for as long as
// patience lasts, the error is the refusal. v is nil where nobody answered.
func (a *approach) reached(ctx context.Context, v *membership.View) (bool, error) {
	o := a.obstacle(ctx, v)
	if o == nil {
		a.inTheWay = nil
		return true, nil
	}
	if !o.same(a.inTheWay) {
		a.since.restart(a.turn)
		a.inTheWay = o
		problem.Progress(ctx, "etcd %s: waiting: %s", a.s.Name, o.Cause)
	}
	if a.since.lasted() > a.cl.pace.Patience || pause(ctx, 5*a.cl.pace.Poll) != nil {
		return false, refusal(a.summary, a.s, v, o.Cause, a.unchanged, o.Next)
	}
	if waiting, _ := a.turn.others(); waiting > 0 {
		return false, a.turn.yield(ctx)
	}
	return false, nil
}

// obstacle looks at the members first, then at the API servers. One that joins
// members of its own generation changes nothing for these.
func (a *approach) obstacle(ctx context.Context, v *membership.View) *obstacle {
	target := a.s.generation()
	members := standings(a.s, v, a.cl.lookAround(ctx, a.s))
	if o := mayTake(target, a.joins, members); o != nil {
		return o
	}
	first := !slices.ContainsFunc(members, func(m standing) bool { return m.Unknown == "" && m.Generation == target })
	if a.s.APIServers == nil || a.joins && !first {
		return nil
	}
	return mayTake(target, false, apiServerGenerations(ctx, a.conv, v, a.s.APIServers))
}
