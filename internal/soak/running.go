package soak

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// running describes the processes of a machine, as reported by the processes themselves.
type running struct {
	etcd, kubernetes string
	started          uint64 // of the member, in microseconds: machines of a lab share one clock
}

// running observes every machine without the provider.
func (s *site) running(ctx context.Context) (map[string]running, error) {
	all := map[string]running{}
	for _, m := range s.three() {
		out, err := m.Run(ctx, with(map[string]string{"address": m.Address.String()}, runningScript))
		if err == nil {
			all[m.Name], err = parseRunning(out)
		}
		if err != nil {
			return nil, fmt.Errorf("ask %s what it runs: %w", m.Name, err)
		}
	}
	return all, nil
}

// parseRunning parses the output of runningScript.
func parseRunning(out string) (r running, err error) {
	lines := strings.Split(out, "\n")
	if len(lines) < 3 {
		return r, fmt.Errorf("it says %q", out)
	}
	if r.started, err = strconv.ParseUint(lines[0], 10, 64); err != nil {
		return r, fmt.Errorf("read the start of etcd: %w", err)
	}
	if _, err := fmt.Sscanf(lines[1], "etcd_server_version{server_version=%q} 1", &r.etcd); err != nil {
		return r, fmt.Errorf("read the version of etcd: %w", err)
	}
	var server struct{ GitVersion string }
	if err := json.Unmarshal([]byte(lines[2]), &server); err != nil {
		return r, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	r.kubernetes = strings.TrimPrefix(server.GitVersion, "v")
	return r, nil
}

// runResult counts the machines that run these versions.
func runResult(name, etcd, kubernetes string, observed map[string]running) Result {
	r := Result{Name: name + ": every machine runs it", Detail: fmt.Sprintf("etcd %s, Kubernetes %s", etcd, kubernetes)}
	for _, machine := range slices.Sorted(maps.Keys(observed)) {
		now := observed[machine]
		right := now.etcd == etcd && now.kubernetes == kubernetes
		r.count(right)
		if !right {
			r.Detail += fmt.Sprintf("; %s runs etcd %s, Kubernetes %s", machine, now.etcd, now.kubernetes)
		}
	}
	return r
}

// leaderLast reports whether the member that was the leader before was restarted after the
// others.
func leaderLast(name, leader string, observed map[string]running) Result {
	order := slices.SortedFunc(maps.Keys(observed),
		func(a, b string) int { return cmp.Compare(observed[a].started, observed[b].started) })
	r := Result{
		Name:   name + ": etcd's leader last",
		Detail: fmt.Sprintf("%s led; restarted in the order %s", leader, strings.Join(order, ", ")),
	}
	r.count(order[len(order)-1] == leader)
	return r
}
