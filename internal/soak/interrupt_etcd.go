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

// etcdScenarios interrupt the operations of etcd.
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
		e.track(operation{name: "etcd create", machines: 3}),
		e.track(operation{name: "etcd destroy", afterHealthInterval: true}))
}

// cutScaling removes a follower, and a leader, because their steps differ.
func cutScaling(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	leave := func(name string, leader int) *track {
		return e.track(operation{name: name, machines: 2, afterHealthInterval: true, leader: leader})
	}
	join := operation{name: "etcd join", machines: 3}
	results, err := s.run(ctx, e.track(join), leave("etcd scale down, a follower", 0))
	if err != nil {
		return results, err
	}
	more, err := s.run(ctx, uninterrupted(join), leave("etcd scale down, the leader", 2))
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
	return s.run(ctx, e.track(operation{name: "etcd change", machines: 3, variables: argument}))
}

func cutReplace(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newEtcdSweep(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, e.track(operation{
		name: "etcd replace of the leader", machines: 3, afterHealthInterval: true, leader: 0,
		once: []string{fmt.Sprintf("-replace=kube_etcd_member.this[%q]", machineNames[0])},
	}))
}
