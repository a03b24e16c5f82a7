// Package etcd creates, reads, changes and removes the members of one etcd cluster on
// machines, by rules that never risk quorum. It is the only package that uses etcd's
// protocol.
package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ErrGone means that there is positive evidence that the member no longer exists. Either
// the cluster's own member list lacks it, and the host does not answer or has nothing of
// it; or no member answers, the host has nothing of it, and its volume, if it has one, says that
// it was removed.
var ErrGone = errors.New("etcd member does not exist")

// Spec is the desired state of one member.
type Spec struct {
	machine.Spec
	Peers      map[string]*host.Host // by member name, this one included: where to find the cluster
	Outage     Outage                // nil: nothing has to be drained
	APIServers APIServers            // nil: no API servers are checked
	// OutageOf opens the outage of the member on another machine, which this member's Update defragments too. end is
	// called when that change is over. nil: nothing has to be drained.
	OutageOf func(h *host.Host) (o Outage, end func())
	// StopReplica stops the replica of the cluster that may be on a machine, until its member's
	// outage has ended. nil: there are none.
	StopReplica func(ctx context.Context, h *host.Host) error
	Abandoned   host.Abandoned // machines that the user has declared permanently lost
	// FormerPeers are the peers in the state that an Update starts from. A peer that is no
	// longer in Peers leaves in the same run.
	FormerPeers map[string]*host.Host
	// Former is the machine that the member is on by the state, if it moves with its volume; else nil. FormerOutage is
	// that of the replica there.
	Former       *host.Host
	FormerOutage Outage
	// LastMachine is the ID of the machine that the member was on last, by the state; "" in a Create.
	LastMachine string
	// NewRestore says that the state does not have Restore: it is requested now.
	NewRestore bool
	// LastID is the ID of the member by the state, in hex; "" in a Create.
	LastID string
}

// Status is the observed state of one member.
type Status struct {
	ID        string // hex
	Version   string // of the running server; "" if it does not answer
	Leader    bool
	Learner   bool
	Healthy   bool
	DBSize    int64 // bytes
	Alarms    []string
	Unit      string // systemd's ActiveState
	MachineID string // of the machine that was observed
	// Holds reports whether that machine has the member. Otherwise, another machine may have its address by now, and
	// MachineID says nothing of where the member ran last.
	Holds             bool
	ConfigDigest      string    // of the rendered files on the machine
	CertificateExpiry time.Time // the earliest of its leaf certificates
	// Drift describes how the machine differs from Spec. Each entry contains the machine
	// and the difference; for a flag: name, observed value, desired value. It is empty if
	// there is none.
	Drift []string
	// Remedy is the next step for those entries of Drift that no Update can repair; "" if
	// there are none.
	Remedy string
	// NewID reports whether the next Update joins the member again, with another ID.
	NewID bool

	unmanaged []unmanagedMember // see withUnmanaged
}

// Outage is notified of the time in which a member does not serve, so that components that
// depend on this member alone can be drained. Both calls may be repeated.
type Outage interface {
	// Begins is called before the member stops. An error means that it must not stop.
	Begins(ctx context.Context) error
	// Ended is called when the member serves again, after an outage of this run or of an
	// earlier one that was interrupted, or when it did not stop. If the change was interrupted, ctx goes on.
	Ended(ctx context.Context) error
}

func (s Spec) outageBegins(ctx context.Context) error {
	if s.Outage == nil {
		return nil
	}
	return s.Outage.Begins(ctx)
}

func (s Spec) outageEnded(ctx context.Context) error { return endOutage(ctx, s.Outage) }

// endOutage announces the end, also after ctx has ended: what depends on the member is to serve again.
func endOutage(ctx context.Context, o Outage) error {
	if o == nil {
		return nil
	}
	ctx, cancel := outliving(ctx, outageEndTimeout)
	defer cancel()
	return o.Ended(ctx)
}

// outageEndTimeout is for how long the end of an outage may take after the change was interrupted. A replica that does
// not become ready is given up before.
const outageEndTimeout = 10 * time.Minute

// outliving returns a context that ends some time after ctx.
func outliving(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		over := time.AfterFunc(d, cancel)
		context.AfterFunc(out, func() { over.Stop() })
	})
	return out, func() { stop(); cancel() }
}
