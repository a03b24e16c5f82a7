package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
)

// TestLeaderlessAtOnce: only the first look at a cluster without a quorum waits for one, and one that decides about
// data. A quorum that comes back is seen by the next look.
func TestLeaderlessAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs(trio...)
	f.create(specs, trio...)
	for _, name := range trio[:2] {
		f.kill(name, false)
	}
	survivor := specs[trio[2]]
	cl := f.clusters.of(survivor)
	observe := func() (time.Duration, error) {
		begun := time.Now()
		_, err := cl.view(t.Context(), survivor)
		return time.Since(begun), err
	}
	const least = client.RequestTimeout
	for i, waits := range []bool{true, false, true} {
		if i == 2 {
			cl.leaderless.Forget()
		}
		if took, err := observe(); !errors.Is(err, client.ErrNoAnswer) || (took >= least) != waits {
			t.Errorf("look %d took %s: %v", i+1, took, err)
		}
	}
	if err := f.machine(trio[0]).start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, err := observe(); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the quorum that came back is not seen")
		}
	}
}
