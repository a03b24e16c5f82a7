package soak

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
)

//go:embed etcd/*.tf
var etcdFiles embed.FS

// etcdScenarios interrupt the operations of etcd at every command.
func etcdScenarios() []Scenario {
	return []Scenario{
		{Name: "interrupt etcd: create, destroy", Run: cutCreate},
		{Name: "interrupt etcd: join, scale down", Run: cutScaling},
		{Name: "interrupt etcd: change", Run: cutChange},
		{Name: "interrupt etcd: replace", Run: cutReplace},
	}
}

func newEtcdSweep(ctx context.Context, e *Env) (*sweep, error) {
	files, err := fs.Sub(etcdFiles, "etcd")
	if err != nil {
		return nil, err
	}
	return newSweep(ctx, e, files)
}

func cutCreate(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.run(ctx,
		newTrack(operation{name: "etcd create", machines: 3}, e.everyPoint()),
		newTrack(operation{name: "etcd destroy", afterHealthInterval: true}, e.everyPoint()))
}

// cutScaling removes a follower, and a leader, because their steps differ.
func cutScaling(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	leave := func(name string, leader int) *track {
		return newTrack(operation{
			name: name, machines: 2, afterHealthInterval: true,
			once: func(ctx context.Context) ([]string, error) {
				return nil, s.machines(s.size).lead(ctx, leader)
			},
		}, e.everyPoint())
	}
	join := newTrack(operation{name: "etcd join", machines: 3}, e.everyPoint())
	results, err := s.run(ctx, join, leave("etcd scale down, a follower", 0))
	if err != nil {
		return results, err
	}
	back := newTrack(join.operation, &everyPoint{ended: true})
	more, err := s.run(ctx, back, leave("etcd scale down, the leader", 2))
	return append(results, more...), err
}

// cutChange restarts every member each time.
func cutChange(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	argument := func(n int) map[string]any {
		return map[string]any{"extra_args": map[string]string{"max-txn-ops": strconv.Itoa(128 + n)}}
	}
	return s.run(ctx, newTrack(operation{name: "etcd change", machines: 3, variables: argument}, e.everyPoint()))
}

func cutReplace(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	leader := func(ctx context.Context) ([]string, error) {
		name, err := s.machines(s.size).leader(ctx)
		return []string{fmt.Sprintf("-replace=kube_etcd_member.this[%q]", name)}, err
	}
	return s.run(ctx, newTrack(operation{
		name: "etcd replace of the leader", machines: 3, afterHealthInterval: true,
		once: leader,
	}, e.everyPoint()))
}
