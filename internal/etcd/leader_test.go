package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// silentLeader returns a fleet whose leader answers no client. Its peers hear it, so it stays the leader.
func silentLeader(t *testing.T, cause error) (f *fleet, specs map[string]Spec, leader string) {
	t.Helper()
	f = newFleet(t)
	specs = f.specs(trio...)
	f.create(specs, trio...)
	leader = leaderOf(f.calm(specs[trio[0]]))
	m := f.machine(leader)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = cause
	return f, specs, leader
}

// TestSilentLeaderIsRemoved: a leader that no client reaches cannot be asked to hand over. It is removed through
// another member.
func TestSilentLeaderIsRemoved(t *testing.T) {
	t.Parallel()
	f, specs, leader := silentLeader(t, host.ErrForwarding)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := f.clusters.Delete(ctx, specs[leader], DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine(leader).wantClean()
	for _, name := range trio {
		if name != leader {
			if v := f.calm(specs[name]); len(v.Members) != 2 || leaderOf(v) == leader {
				t.Errorf("after the removal of %s:\n%s", leader, v)
			}
			break
		}
	}
}

// TestSilentLeaderIsRestarted: the same of a restart. The others elect another leader meanwhile.
func TestSilentLeaderIsRestarted(t *testing.T) {
	t.Parallel()
	f, specs, leader := silentLeader(t, errors.New("connection refused"))
	s := specs[leader]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	status, err := f.clusters.Update(ctx, s)
	if err != nil || !status.Healthy || len(status.Drift) > 0 {
		t.Errorf("update of %s: %+v, %v", leader, status, err)
	}
	if starts := f.machine(leader).starts; starts != 2 {
		t.Errorf("%s was started %d times, want twice", leader, starts)
	}
}

// TestLeaderThatDoesNotHandOver: attempts to move leadership away end at their limit, long before the operation does.
func TestLeaderThatDoesNotHandOver(t *testing.T) {
	cl, specs, _ := reimagedCluster(t)
	cl.pace.StallTimeout, cl.pace.BatchWindow = 20*time.Millisecond, 0
	s := specs[trio[0]]
	v := membership.View{Leader: 1}
	for i, name := range trio {
		address := specs[name].Host.Address()
		v.Members = append(v.Members, membership.Member{
			ID: uint64(i + 1), Name: name, Healthy: true, PeerURLs: []string{membership.PeerURL(address)},
			ClientURLs: []string{membership.ClientURL(address)},
		})
	}
	clients, err := cl.connect(s)
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	turn := cl.turns.Enter()
	defer turn.Leave()
	if err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	removes := &removal{cl: cl, s: s, turn: turn}
	updates := &updating{cl: cl, s: s, turn: turn, clients: clients}
	moves := &taking{cl: cl, s: s, turn: turn}
	spaces := newAlarmRepair(cl, s, turn, clients)
	for name, step := range map[string]func(context.Context) error{
		"removal": func(ctx context.Context) error { return removes.remove(ctx, v, 1) },
		"restart": func(ctx context.Context) error {
			_, err := updates.readyToRestart(ctx, &v)
			return err
		},
		"another machine": func(ctx context.Context) error {
			return moves.handOver(ctx, clients, v, v.Members[0])
		},
		"defragmentation": func(ctx context.Context) error {
			return spaces.takeStep(ctx, v, membership.SpaceStep{Kind: membership.SpaceMoveLeader, ID: 1})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		var err error
		for err == nil && ctx.Err() == nil {
			err = step(ctx)
		}
		if ctx.Err() != nil || !problem.Untouched(err) {
			t.Errorf("%s: %v, %v", name, err, ctx.Err())
		}
		etcdtest.WantError(t, name, err, "leadership did not move from cp1 to cp2")
		cancel()
	}
}
