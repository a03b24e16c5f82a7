package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// latency is how long a member's log takes to reach the disk.
type latency struct {
	bound time.Duration
	count uint64
	err   error
}

// answers are what the member on one machine says about itself.
type answers struct {
	fsync      latency
	compaction Compaction
	profiles   client.Answer
}

// Compaction is what a member reports about the compaction of its history.
type Compaction struct {
	Err      error
	Revision uint64        // up to which it is compacted; 0: never
	Last     time.Time     // of the last compaction since the start; zero: none
	Uptime   time.Duration // of the process
}

// askMembers queries the members on all machines in parallel.
func (cl *cluster) askMembers(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) map[string]answers {
	addresses := hostAddresses(hosts)
	all := make(map[string]answers, len(addresses))
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		for _, address := range addresses {
			all[address] = silent(err)
		}
		return all
	}
	defer clients.Close()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, address := range addresses {
		asking.Go(func() {
			reported := askMember(ctx, clients, address, time.Now())
			mu.Lock()
			defer mu.Unlock()
			all[address] = reported
		})
	}
	asking.Wait()
	return all
}

func silent(err error) answers {
	return answers{fsync: latency{err: err}, compaction: Compaction{Err: err}, profiles: client.Answer{Err: err}}
}

// profilesPage is where etcd serves profiles, if at all (etcd's pkg/debugutil).
const profilesPage = "/debug/pprof/"

func askMember(ctx context.Context, clients *client.Clients, address string, now time.Time) answers {
	text, err := clients.GetHTTP(ctx, address, "/metrics", 8<<20)
	if err != nil {
		return silent(err)
	}
	return answers{
		fsync: fsyncIn(string(text)), compaction: compactionIn(string(text), now),
		profiles: clients.Ask(ctx, address, profilesPage),
	}
}

// fsyncHistogram is etcd's metric of how long its log takes to reach the disk.
const fsyncHistogram = "etcd_disk_wal_fsync_duration_seconds"

var errNoFsync = errors.New("the metrics of the member do not contain " + fsyncHistogram)

// fsyncIn parses the histogram from a page of metrics. It returns the bound of the first
// bucket that contains 99 of 100.
func fsyncIn(metrics string) latency {
	type bucket struct {
		bound float64
		count uint64
	}
	var buckets []bucket
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, fsyncHistogram+`_bucket{le="`)
		bound, count, cut := strings.Cut(strings.TrimSpace(rest), `"} `)
		if !ok || !cut {
			continue
		}
		le, boundErr := strconv.ParseFloat(bound, 64) // accepts "+Inf"
		n, countErr := strconv.ParseFloat(count, 64)
		if err := errors.Join(boundErr, countErr); err != nil {
			return latency{err: fmt.Errorf("read %s: %w", fsyncHistogram, err)}
		}
		if valid := le > 0 && (le < 1e6 || math.IsInf(le, 1)) && n >= 0 && n < 1<<53; !valid { // NaN is not
			return latency{err: fmt.Errorf("read %s: a bucket %s of %s", fsyncHistogram, problem.Quote(bound),
				problem.Quote(count))}
		}
		buckets = append(buckets, bucket{le, uint64(n)})
	}
	if len(buckets) == 0 {
		return latency{err: errNoFsync}
	}
	all := buckets[len(buckets)-1].count
	for _, b := range buckets {
		if float64(b.count) >= 0.99*float64(all) && !math.IsInf(b.bound, 1) {
			return latency{bound: time.Duration(b.bound * float64(time.Second)), count: all}
		}
	}
	// Slower than the last bound (8.192 s).
	return latency{bound: time.Minute, count: all}
}

// The gauges of compactions. The time is 0 until the process has compacted.
const (
	compactedRevision = "etcd_debugging_mvcc_compact_revision"
	compactionTime    = "etcd_debugging_mvcc_db_compaction_last"
	processStart      = "process_start_time_seconds"
)

// neverCompacted is etcd's revision of a history that was never compacted.
const neverCompacted = -1

// compactionIn parses a page of metrics.
func compactionIn(metrics string, now time.Time) Compaction {
	values := map[string]float64{}
	for line := range strings.Lines(metrics) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != compactedRevision && name != compactionTime && name != processStart {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if name == compactedRevision && value == neverCompacted {
			value = 0
		}
		if err != nil || !(value >= 0 && value < 1<<53) { // NaN is not
			return Compaction{Err: fmt.Errorf("%s is %s", name, problem.Quote(text))}
		}
		values[name] = value
	}
	for _, name := range []string{compactedRevision, compactionTime, processStart} {
		if _, there := values[name]; !there {
			return Compaction{Err: fmt.Errorf("the metrics of the member do not contain %s", name)}
		}
	}
	c := Compaction{Revision: uint64(values[compactedRevision])}
	c.Uptime = max(0, now.Sub(time.Unix(int64(values[processStart]), 0)))
	if last := int64(values[compactionTime]); last > 0 {
		c.Last = time.Unix(last, 0).UTC()
	}
	return c
}
