package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// restoreScenarios interrupt the ways back of a cluster that is lost, and moves of a member with its volume.
func restoreScenarios() []Scenario {
	snapshot, survivor := map[string]any{"snapshot": sweepSnapshot}, map[string]any{"member": machineNames[2]}
	return []Scenario{
		cutRestore("etcd", "a snapshot", snapshot, (*sweep).loseAll),
		cutRestore("etcd", "one survivor", survivor, (*sweep).loseTwo),
		cutRestore("etcd", "two survivors", survivor, (*sweep).loseOne),
		cutRestore("control plane", "a snapshot", snapshot, (*sweep).loseAll),
		cutRestore("control plane", "one survivor", survivor, (*sweep).loseTwo),
		{Name: "interrupt etcd: volume", Run: cutVolume},
	}
}

// cutRestore is the scenario of restores, each after the same loss: of members alone, or of a whole control plane,
// whose API servers stop meanwhile.
func cutRestore(of, name string, source map[string]any, lose func(*sweep, context.Context) error) Scenario {
	run := func(ctx context.Context, e *Env) ([]Result, error) {
		begin, variables := newEtcdSweep, restoring(source)
		if of != "etcd" {
			begin, variables = newRestoreSweep, func(n int) map[string]any { return controlPlane(restoring(source)(n)) }
		}
		s, err := begin(ctx, e)
		if err != nil {
			return nil, err
		}
		return s.run(ctx, e.track(operation{
			name: of + " restore, " + name, machines: 3, variables: variables,
			before: func(ctx context.Context) error { return lose(s, ctx) },
		}))
	}
	return Scenario{Name: "interrupt " + of + ": restore, " + name, Run: run}
}

// newRestoreSweep returns a sweep for restores of a whole control plane. Each API server must be registered with etcd
// afterwards, and no other.
func newRestoreSweep(ctx context.Context, e *Env) (*sweep, error) {
	s, err := controlPlaneSweep(e, "restore")
	if err != nil {
		return nil, err
	}
	s.more = func(ctx context.Context, used fleet) error {
		if err := s.serving(ctx, used); err != nil {
			return err
		}
		return eventually(ctx, clusterTimeout, time.Second, used.registered)
	}
	return s, s.begin(ctx)
}

// masterLeases is the prefix of the keys by which API servers register their addresses. They renew them every ten
// seconds.
const masterLeases = "/registry/masterleases/"

// registered returns how the API servers that are registered differ from those of the machines, or nil.
func (f fleet) registered(ctx context.Context) error {
	out, err := f[0].Run(ctx, etcdctl+"etcdctl get --prefix --keys-only "+masterLeases)
	if err != nil {
		return fmt.Errorf("list the registered API servers: %w", err)
	}
	got, want := strings.Fields(strings.ReplaceAll(out, masterLeases, "")), f.addresses()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the registered API servers are %q, want %q", got, want)
	}
	return nil
}

// restoring returns the variables of restores from a source: each operation is another one. Before the first, there is
// nothing to restore.
func restoring(source map[string]any) func(n int) map[string]any {
	return func(n int) map[string]any {
		if n == 0 {
			return map[string]any{}
		}
		once := maps.Clone(source)
		once["id"] = fmt.Sprintf("sweep-%d", n)
		return map[string]any{"restore": once}
	}
}

// sweepSnapshot is the snapshot on the first machine.
const sweepSnapshot = "/root/sweep.db"

// loseScript makes the machine's member lose its data, as a broken disk does.
const loseScript = "systemctl kill --signal=KILL etcd\nsystemctl stop etcd\nrm -rf /var/lib/etcd/member"

// loseAll leaves a snapshot with all keys.
func (s *sweep) loseAll(ctx context.Context) error {
	all := s.machines(3)
	save := "set -e\nrm -f " + sweepSnapshot + "\n" + etcdctl + "etcdctl snapshot save " + sweepSnapshot + " >/dev/null"
	if _, err := all[0].Run(ctx, save); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	_, err := all.each(ctx, loseScript)
	return err
}

// loseTwo leaves the third member.
func (s *sweep) loseTwo(ctx context.Context) error {
	all := s.machines(3)
	if err := s.catchUp(ctx, all[2]); err != nil {
		return err
	}
	_, err := all[:2].each(ctx, loseScript)
	return err
}

// loseOne leaves the third member, and the first, which lacks the last key. They do not reach each other, because they
// would have a quorum, until the first one no longer has its data.
func (s *sweep) loseOne(ctx context.Context) error {
	all := s.machines(3)
	if _, err := all[0].Run(ctx, "systemctl stop etcd"); err != nil {
		return err
	}
	if err := eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
		return s.putOn(ctx, all[1])
	}); err != nil {
		return err
	}
	if err := s.catchUp(ctx, all[2]); err != nil {
		return err
	}
	if _, err := all[1].Run(ctx, loseScript); err != nil {
		return err
	}
	_, err := all[0].Run(ctx, partScript)
	return err
}

// catchUp returns when the member on a machine has every key: it reads linearizably.
func (s *sweep) catchUp(ctx context.Context, m *lab.Machine) error {
	if _, err := m.Run(ctx, etcdctl+"etcdctl get --keys-only "+keyPrefix); err != nil {
		return fmt.Errorf("read by the member on %s: %w", m.Name, err)
	}
	return nil
}
