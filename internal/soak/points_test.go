package soak

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// runOf returns the log of a run of that many commands that is interrupted at p.
func runOf(commands int, p cut.Point) cut.Log {
	if p.Command > 0 && p.Command <= commands {
		return cut.Log{Commands: p.Command, Cut: true}
	}
	return cut.Log{Commands: commands}
}

func TestExhaustive(t *testing.T) {
	var points []string
	c := &everyPoint{}
	lengths := []int{2, 2, 2, 1, 3} // the fourth run has one command less, the fifth one more
	for n := 0; !c.done(); n++ {
		p := c.next()
		points = append(points, p.String())
		c.ran(runOf(append(lengths, 3, 3, 3)[min(n, len(lengths))], p))
	}
	want := []string{"", "before:1", "after:1", "before:2", "after:2", "before:3", "after:3", "before:4"}
	if !slices.Equal(points, want) {
		t.Errorf("tried %q, want %q", points, want)
	}
}

func TestEveryThird(t *testing.T) {
	var points []string
	c := (&Env{Every: 3}).everyPoint()
	for !c.done() {
		p := c.next()
		points = append(points, p.String())
		c.ran(runOf(5, p))
	}
	want := []string{"", "before:3", "after:3", "before:6"}
	if !slices.Equal(points, want) {
		t.Errorf("tried %q, want %q", points, want)
	}
}

func TestNothingToCut(t *testing.T) {
	for name, c := range map[string]cursor{"exhaustive": &everyPoint{}, "sampled": &randomPoints{left: 3}} {
		runs := 0
		for ; !c.done(); runs++ {
			if runs > 100 {
				t.Fatalf("%s: goes on with an operation that has no commands", name)
			}
			if p := c.next(); p != (cut.Point{}) {
				t.Errorf("%s: tries %s of an operation that has no commands", name, p)
			}
			c.ran(cut.Log{})
		}
	}
}

func TestSampled(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	c := &randomPoints{random: rand.New(rand.NewPCG(seed, 0)), left: 200}
	seen := map[string]int{}
	for !c.done() {
		p := c.next()
		seen[p.String()]++
		c.ran(runOf(2, p))
	}
	for _, p := range []string{"before:1", "after:1", "before:2", "after:2"} {
		if seen[p] < 20 {
			t.Errorf("%s was tried %d times of 200", p, seen[p])
		}
	}
	if len(seen) != 5 || seen[""] != 1 {
		t.Errorf("tried %v", seen)
	}
}
