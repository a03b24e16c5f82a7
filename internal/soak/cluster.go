package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// clusterTimeout is how long a cluster may take to elect a leader and to answer after an apply
// that was interrupted at any point.
const clusterTimeout = time.Minute

// served is the answer of one machine's member.
type served struct {
	cluster      uint64 // etcd's cluster ID; 0: no answer
	linearizable bool
}

// parseServed parses the output of servedScript.
func parseServed(out string) (served, error) {
	document, rest, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if document == "" {
		return served{}, nil
	}
	var answers []struct {
		Status struct {
			Header struct {
				Cluster uint64 `json:"cluster_id"`
			} `json:"header"`
		}
	}
	if err := json.Unmarshal([]byte(document), &answers); err != nil {
		return served{}, fmt.Errorf("read the status of etcd: %w", err)
	}
	if len(answers) != 1 {
		return served{}, fmt.Errorf("read the status of etcd: %d answers", len(answers))
	}
	return served{answers[0].Status.Header.Cluster, strings.Contains(rest, "linearizable")}, nil
}

// clusters queries, on every machine, which cluster its member serves.
func (f fleet) clusters(ctx context.Context) (map[string]served, error) {
	printed, err := f.each(ctx, etcdctl+servedScript)
	if err != nil {
		return nil, err
	}
	all := map[string]served{}
	for name, out := range printed {
		if all[name], err = parseServed(out); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// errOtherCluster means that a member serves another cluster than the one created first.
var errOtherCluster = errors.New("another etcd cluster is served")

// checkCluster returns why these answers are not those of one working cluster, or nil. A
// cluster ID of 0 matches any.
func checkCluster(cluster uint64, answers map[string]served) error {
	linearizable := false
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		a := answers[name]
		if a.cluster == 0 {
			continue
		}
		if cluster == 0 {
			cluster = a.cluster
		}
		if a.cluster != cluster {
			return fmt.Errorf("%w: %x on %s, not %x", errOtherCluster, a.cluster, name, cluster)
		}
		linearizable = linearizable || a.linearizable
	}
	if !linearizable {
		return errors.New("no member reads linearizably: the cluster has no quorum")
	}
	return nil
}

// waitForCluster waits until the cluster answers, and returns its ID. It does not wait while
// another cluster is served, because that state is permanent.
func (f fleet) waitForCluster(ctx context.Context, cluster uint64) (uint64, error) {
	var other error
	err := eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
		answers, err := f.clusters(ctx)
		if err == nil {
			err = checkCluster(cluster, answers)
		}
		if errors.Is(err, errOtherCluster) {
			other, err = err, nil
		}
		if err == nil && other == nil {
			for _, a := range answers {
				cluster = max(cluster, a.cluster)
			}
		}
		return err
	})
	return cluster, errors.Join(err, other)
}
