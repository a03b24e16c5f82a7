package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// stalls is a store whose first write takes long, and whose second one fails.
type stalls struct {
	clientv3.KV
	writes atomic.Int64
}

func (s *stalls) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	switch s.writes.Add(1) {
	case 1:
		time.Sleep(400 * time.Millisecond)
	case 2:
		return nil, errors.New("no leader")
	}
	return &clientv3.PutResponse{}, nil
}

// TestSteady: a write that waits delays no other one, and counts with all of its time.
func TestSteady(t *testing.T) {
	until, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	store := &stalls{}
	took, failed := steady(t.Context(), store, until.Done())
	if failed != 1 || len(took) != int(store.writes.Load())-1 || len(took) < 5 {
		t.Errorf("%d writes, of which %d failed, and %d were measured", store.writes.Load(), failed, len(took))
	}
	if longest := slices.Max(took); longest < 400 || took.quantile(0.5) > longest/2 {
		t.Errorf("the longest write took %.0f ms, and the median %.0f ms", longest, took.quantile(0.5))
	}
}

func TestQuantile(t *testing.T) {
	var s series
	for n := range 200 {
		s = append(s, float64(200-n))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 100, 0.99: 198, 1: 200} {
		if got := s.quantile(q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

// TestCompareWrites: each burden is compared with none, by the median and by the slowest hundredth.
func TestCompareWrites(t *testing.T) {
	medians, tails := times{}, times{}
	for i, b := range burdens() {
		medians.add(times{b.name: {float64(i + 2)}})
		tails.add(times{b.name: {float64(10 * (i + 1))}})
	}
	var got []string
	for _, r := range compareWrites(database{size: gigabyte}, medians, tails) {
		got = append(got, describe(r))
	}
	follows := " of 100 writes per second beside: one client follows all changes into a file, database of 1 GB, " +
		"against nothing"
	saves := " of 100 writes per second beside: a full snapshot each minute, database of 1 GB, against nothing"
	want := []string{
		"p50" + follows + ": 1.50, , true", "p99" + follows + ": 2.00, , true",
		"p50" + saves + ": 2.00, , true", "p99" + saves + ": 3.00, , true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
