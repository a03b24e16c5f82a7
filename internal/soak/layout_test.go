package soak

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEditGenerator: after every edit, each name and address belongs to one member, and every edit is
// generated eventually.
func TestEditGenerator(t *testing.T) {
	const seed = 3
	d := &editGenerator{random: rand.New(rand.NewPCG(seed, 0)), pool: []string{"1", "2", "3", "4", "5", "6"}}
	now := layout{"cp1": {"cp1", "1"}, "cp2": {"cp2", "2"}, "cp3": {"cp3", "3"}}
	seen := map[string]int{}
	for range 5000 {
		next := d.next(now)
		seen[next.edit]++
		addresses := map[string]bool{}
		for _, p := range next.layout {
			addresses[p.Address] = true
		}
		if n := len(next.layout); len(next.layout.peers()) != n || len(addresses) != n || n < fewest || n > most {
			t.Fatalf("seed %d: %s makes %v of %v", seed, next.edit, next.layout, now)
		}
		for from, to := range next.moved {
			if now[from] != next.layout[to] {
				t.Fatalf("seed %d: %s moves %s to %s, in %v", seed, next.edit, from, to, next.layout)
			}
		}
		for _, key := range slices.Concat(next.replaced, next.tainted, next.destroy) {
			if _, ok := now[key]; !ok {
				t.Fatalf("seed %d: %s means %s, which is not there", seed, next.edit, key)
			}
		}
		now = next.layout
	}
	if want := len(d.edits()) - 1; len(seen) != want { // one of them is listed twice
		t.Errorf("%d of %d edits were drawn: %v", len(seen), want, seen)
	}
}
