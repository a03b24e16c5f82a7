package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// interrupted is an outage during which the change is interrupted.
type interrupted struct {
	counter
	cancel context.CancelFunc
}

func (i *interrupted) Begins(ctx context.Context) error {
	err := i.counter.Begins(ctx)
	i.cancel()
	return err
}

// TestInterruptedOutageEnds: a change that is interrupted when the outage has begun ends it, with a context that goes
// on.
func TestInterruptedOutageEnds(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.calm(specs["cp1"])
	wantEnded := func(what string, change func(context.Context, Spec) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(f.context())
		defer cancel()
		s, o := specs["cp1"], &interrupted{cancel: cancel}
		s.ExtraArgs = map[string]string{"max-txn-ops": "777"}
		s.Outage = o
		if err := change(ctx, s); err == nil {
			t.Errorf("%s: no error", what)
		}
		if begins, ends := o.begins.Load(), o.ends.Load(); begins != 1 || ends != 1 || o.dead.Load() {
			t.Errorf("%s: %d begun, %d ended, with a context that has ended: %v", what, begins, ends, o.dead.Load())
		}
	}
	wantEnded("update", func(ctx context.Context, s Spec) error {
		_, err := f.clusters.Update(ctx, s)
		return err
	})
	wantEnded("defragmentation", func(ctx context.Context, s Spec) error {
		_, err := f.clusters.Defragment(ctx, s, membership.Defragmentation{Force: true})
		return err
	})
	wantEnded("deletion", func(ctx context.Context, s Spec) error {
		return f.clusters.Delete(ctx, s, DeleteOptions{})
	})
}

func TestOutliving(t *testing.T) {
	t.Parallel()
	parent, end := context.WithCancel(t.Context())
	out, cancel := outliving(parent, 50*time.Millisecond)
	defer cancel()
	end()
	if out.Err() != nil {
		t.Error("it has ended with its parent")
	}
	select {
	case <-out.Done():
	case <-time.After(5 * time.Second):
		t.Error("it has not ended")
	}
	out, cancel = outliving(t.Context(), time.Hour)
	if cancel(); out.Err() == nil {
		t.Error("it has not ended with its own cancellation")
	}
}
