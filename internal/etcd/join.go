package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// joining is the join of one member to a cluster that answers, in its turn.
type joining struct {
	cl      *cluster
	s       Spec
	turn    *wait.Turn
	clients *client.Clients
	f       machine.Observed
	me      membership.JoiningMember

	programs    bool                    // are known to be installed
	installed   bool                    // by this call
	changed     bool                    // this call changed something on the machine or in the member list
	outageBegun bool                    // the outage of a serving member was announced
	removed     bool                    // that member, by this call
	added       uint64                  // the learner that this call added; 0: none
	refused     wait.Clock              // how long the same condition has been waited for
	catchUp     *machine.Watch          // watches the member itself; nil: it was not started
	ahead       *machine.Watch          // watches a learner that must be promoted first
	verdict     membership.DeathVerdict // on the last entry that blocked the join
	rotation    rotationWait            // to the generation of s
	versions    bool                    // its version may run beside those of the others
	asked       bool                    // rotation is ready, and no other member has had a turn since
}

const notJoined = "etcd member not joined" // the summary of its refusals

// join joins one member to the cluster. Members join one at a time.
func (cl *cluster) join(ctx context.Context, s Spec) (Status, error) {
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(ctx); err != nil {
		return Status{}, notBegun(s, err)
	}
	ctx = cl.withLease(ctx)
	j := &joining{cl: cl, s: s, turn: turn}
	if err := j.observe(ctx); err != nil {
		return Status{}, err
	}
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, notBegun(s, err)
	}
	defer clients.Close()
	j.clients = clients
	j.rotation = rotationWait{cl: cl, s: s, turn: turn, clients: clients, summary: notJoined, joins: true}
	established := j.f.Data && !j.f.Pending
	if err := j.run(ctx); err != nil {
		err = j.afterFailure(ctx, err)
		if j.outageBegun && !j.removed {
			err = errors.Join(err, s.outageEnded(ctx)) // it stays a member
		}
		switch {
		case established && j.added == 0 && j.me.Data:
			err = fmt.Errorf("%w; %w", err, ErrAdopted)
		case !j.changed && !j.installed && !j.me.Data:
			err = notBegun(s, err)
		}
		return Status{}, err
	}
	// An adopted member may differ from its spec.
	status, err := cl.converge(ctx, turn, s)
	if err != nil && j.outageBegun {
		err = errors.Join(err, s.outageEnded(ctx)) // it is a member again
	}
	if err != nil && established && j.added == 0 {
		err = fmt.Errorf("%w; %w", err, ErrAdopted)
	}
	return status, err
}

// observe observes the machine again: time has passed while waiting for the turn.
func (j *joining) observe(ctx context.Context) error {
	j.f = j.cl.observe(ctx, j.s, j.s.Name, j.s.Host)
	if err := checkToCreate(j.s, j.f); err != nil {
		return err
	}
	j.me = membership.JoiningMember{
		Name: j.s.Name, PeerURL: j.s.PeerURL(), Data: j.f.Data, Pending: j.f.Pending,
		Running: j.f.Running() && j.f.Unit.Sub != "auto-restart", Volume: j.s.Volume != nil,
	}
	if j.f.Record != nil {
		j.me.MemberID = j.f.Record.ID()
	}
	// A unit that has never served and was rendered from other settings may never serve,
	// so it is started again. A serving unit is changed by converge, which follows the
	// restart rules.
	if j.f.Unit.Active == "activating" && len(machine.UnitFileDrift(j.s.Spec, j.f)) > 0 {
		j.me.Running = false
	}
	return nil
}

// run takes one step after another until the member is an established voter.
func (j *joining) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("join etcd member %s: %w", j.s.Label(), err)
		}
		v, err := j.cl.observeToChange(ctx, j.clients, j.s)
		if err != nil {
			if !client.Transient(err) {
				return fmt.Errorf("get the member list of the cluster: %w", err)
			}
			if err := j.waitOrRefuse(ctx, nil, j.cl.pace.ConditionTimeout, err); err != nil {
				return err
			}
			continue
		}
		j.me.Earlier = j.f.OfEarlierCluster(v.ClusterID)
		v = j.verdict.Mark(v, j.cl.verdictLasts())
		next := membership.NextJoinStep(v, j.me)
		if next.Kind == membership.JoinDone {
			return nil
		}
		if err := j.takeStep(ctx, v, next); err != nil {
			return err
		}
	}
}

// takeStep takes one step. A step that has to wait returns nil without effect and is
// called again.
func (j *joining) takeStep(ctx context.Context, v membership.View, next membership.JoinStep) error {
	if j.changes(next.Kind) && !j.asked {
		j.rotation.unchanged = j.unchanged()
		near, err := j.rotation.ready(ctx, &v)
		if j.asked = near; !near {
			return err
		}
	}
	switch next.Kind {
	case membership.JoinArchive:
		problem.Progress(ctx, "etcd %s: archiving its data: %s", j.s.Name, next.Reason)
		j.progressed()
		if err := machine.ArchiveData(ctx, j.cl.machine(j.s.Host), j.s.Spec); err != nil {
			return err
		}
		j.me.Data, j.me.Running, j.me.Pending, j.me.MemberID = false, false, false, 0
		j.f.Data, j.f.Pending, j.f.Record = false, false, nil
		return nil
	case membership.JoinVerify:
		return j.verify(ctx, v, next)
	case membership.JoinRemove:
		return j.removeStale(ctx, v, next)
	case membership.JoinMove:
		return j.move(ctx, v, next)
	case membership.JoinAdd:
		return j.add(ctx, v)
	case membership.JoinStart:
		return j.start(ctx, v, next.ID)
	case membership.JoinWait:
		return j.wait(ctx, v, next.ID)
	case membership.JoinPromote:
		return j.promote(ctx, v, next.ID)
	case membership.JoinEstablish:
		if _, err := j.cl.machine(j.s.Host).Change(ctx, host.Change{Remove: []string{layout.EnvPath}},
			machine.Action{}); err != nil {
			return fmt.Errorf("complete the start of etcd on %s: %w", j.s.Label(), err)
		}
		j.me.Pending = false
		return nil
	}
	other, _ := v.Member(next.ID)
	return refusedBy(&takenError{other.Name}, notJoined, j.s, &v, next.Reason, j.unchanged(),
		cmp.Or(next.Next, "change the member's name or address, or remove the other member first"))
}

// changes reports whether a step leads to files of another generation than the machine
// has. For a member that this call has added, that was already checked.
func (j *joining) changes(kind membership.JoinStepKind) bool {
	switch kind {
	case membership.JoinArchive, membership.JoinRemove, membership.JoinAdd:
		return j.added == 0
	case membership.JoinStart:
		return j.added == 0 && (j.f.Record == nil || j.f.Record.Generation != j.s.Generation())
	}
	return false
}

// waitOrRefuse waits a moment for a condition to clear by itself, and lets others that may
// clear it go first. When the condition has lasted for limit, it returns the refusal.
func (j *joining) waitOrRefuse(ctx context.Context, v *membership.View, limit time.Duration, cause error) error {
	if !j.refused.Running() { // the text of the cause may change while waiting for it
		j.refused.Begin(j.turn)
		problem.Progress(ctx, "etcd %s: waiting: %s", j.s.Name, cause)
	}
	if j.refused.Lasted() > limit {
		return j.refuseAfterWait(v, cause)
	}
	return j.yieldOrWait(ctx, v, cause)
}

func (j *joining) refuseAfterWait(v *membership.View, cause error) error {
	if errors.Is(cause, client.ErrNoAnswer) && !j.changed {
		return cause
	}
	return j.refuse(v, cause.Error(),
		"repair or destroy the named member (a dead one can always be destroyed), then apply again")
}

// yieldOrWait waits a moment, and lets those go first that wait for their turn.
func (j *joining) yieldOrWait(ctx context.Context, v *membership.View, cause error) error {
	if wait.Pause(ctx, 5*j.cl.pace.Poll) != nil {
		return j.refuseAfterWait(v, cause)
	}
	if waiting, _ := j.turn.Others(); waiting > 0 && j.added == 0 {
		j.asked = false
		return j.turn.Yield(ctx)
	}
	return nil
}

// progressed records progress: the waiting time of the next condition starts again.
func (j *joining) progressed() {
	j.changed = true
	j.refused.End()
}

func (j *joining) refuse(v *membership.View, cause, next string) error {
	return refusal(notJoined, j.s, v, cause, j.unchanged(), next)
}

func (j *joining) unchanged() string {
	if j.changed || j.installed {
		return "the other members and their data."
	}
	return problem.Nothing
}
