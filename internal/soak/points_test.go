package soak

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// runOf returns the log of a run of these commands on one machine, which takes 90 ms each, that is
// interrupted at p. A command whose name ends with ! is a request.
func runOf(p cut.Point, commands ...string) (log cut.Log) {
	seen := map[string]int{}
	for _, command := range commands {
		seen[command]++
		step := cut.Step{Key: cut.Key{Machine: "a", Command: command, Occurrence: seen[command]}}
		log.Commands++
		for _, side := range []cut.Side{cut.Before, cut.During, cut.After} {
			if side == cut.During && strings.HasSuffix(command, "!") {
				continue
			}
			if step.Sides = append(step.Sides, side); side == cut.After {
				step.Took = 90 * time.Millisecond
			}
			if p.Side == side && p.Key == step.Key {
				log.Cut, log.Steps = true, append(log.Steps, step)
				return log
			}
		}
		log.Steps = append(log.Steps, step)
	}
	return log
}

// tryAll runs the commands until the cursor is done, and returns the points in the order in which
// they were tried.
func tryAll(t *testing.T, c *cursor, runs ...[]string) []string {
	t.Helper()
	var tried []string
	for n := 0; !c.done(); n++ {
		if n > 500 {
			t.Fatalf("it goes on after %d runs", n)
		}
		p := c.next()
		tried = append(tried, p.String())
		c.ran(p, runOf(p, runs[min(n, len(runs)-1)]...), nil)
	}
	return tried
}

func TestExhaustive(t *testing.T) {
	got := tryAll(t, &cursor{}, []string{host.ObserveSummary, host.ObserveSummary, "x", "x", "y!"})
	want := []string{
		"", "during a: observe the machine (1)",
		"before a: x (1)", "during a: x (1)", "after a: x (1)",
		"before a: x (2)", "during a: x (2)", "after a: x (2)",
		"before a: y! (1)", "after a: y! (1)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("tried %q, want %q", got, want)
	}
}

// TestNewPoints adds points that a later run reaches, and gives up one that no other run reaches.
func TestNewPoints(t *testing.T) {
	c := &cursor{}
	got := tryAll(t, c, []string{"x!", "rare!"}, []string{"x!", "y!"})
	want := []string{
		"", "before a: x! (1)", "after a: x! (1)",
		"before a: rare! (1)", "after a: rare! (1)", // y is seen for the first time
		"before a: y! (1)", "after a: y! (1)",
		"before a: rare! (1)", "after a: rare! (1)", "before a: rare! (1)", "after a: rare! (1)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("tried %q, want %q", got, want)
	}
	track := newTrack(operation{name: "x"}, c)
	if d := track.result().Detail; !strings.Contains(d, "2 never cut") ||
		!strings.Contains(d, "\nnever cut: before a: rare! (1)\nnever cut: after a: rare! (1)") {
		t.Errorf("the detail is %q", d)
	}
}

// TestWait: a cut during a command is well before its end, and earlier if the command had ended by then.
func TestWait(t *testing.T) {
	c := &cursor{}
	c.ran(cut.Point{}, runOf(cut.Point{}, "x"), nil)
	var waits []time.Duration
	for !c.done() {
		p := c.next()
		if p.Side != cut.During {
			c.ran(p, runOf(p, "x"), nil)
			continue
		}
		waits = append(waits, p.Wait)
		c.ran(p, runOf(cut.Point{}, "x"), nil)
	}
	if want := []time.Duration{30 * time.Millisecond, 15 * time.Millisecond, 7500 * time.Microsecond}; !slices.Equal(waits,
		want) {
		t.Errorf("waited %v, want %v", waits, want)
	}
}

func TestEveryThird(t *testing.T) {
	got := tryAll(t, &cursor{every: 3}, []string{"1!", "2!", "3!", "4!", "5!", "6!", "7!"})
	want := []string{"", "before a: 3! (1)", "after a: 3! (1)", "before a: 6! (1)", "after a: 6! (1)"}
	if !slices.Equal(got, want) {
		t.Errorf("tried %q, want %q", got, want)
	}
}

// TestNothingToCut: an operation without points ends, and fails.
func TestNothingToCut(t *testing.T) {
	for name, c := range map[string]*cursor{
		"exhaustive": {}, "sampled": {random: rand.New(rand.NewPCG(1, 0)), left: 3},
	} {
		if got := tryAll(t, c, nil); !slices.Equal(got, []string{""}) {
			t.Errorf("%s: tried %q", name, got)
		}
		if r := newTrack(operation{name: "x"}, c).result(); r.Passed == r.Tried {
			t.Errorf("%s: passed with %+v", name, r)
		}
	}
	c := &cursor{every: 3}
	if got := tryAll(t, c, []string{"x", "y"}); !slices.Equal(got, []string{""}) {
		t.Errorf("every third of two: tried %q", got)
	}
	if r := newTrack(operation{name: "x"}, c).result(); r.Passed == r.Tried {
		t.Errorf("every third of two: passed with %+v", r)
	}
}

func TestSampled(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	seen := map[string]int{}
	for n := range uint64(300) {
		c := &cursor{random: rand.New(rand.NewPCG(seed, n)), left: 2}
		tried := tryAll(t, c, []string{"x!", "y!"})
		if len(tried) != 3 || tried[0] != "" || tried[1] == tried[2] {
			t.Fatalf("tried %q, want the list and two points", tried)
		}
		seen[tried[1]]++
	}
	for _, p := range []string{"before a: x! (1)", "after a: x! (1)", "before a: y! (1)", "after a: y! (1)"} {
		if seen[p] < 40 {
			t.Errorf("%s was tried first %d times of 300", p, seen[p])
		}
	}
}

// TestFailedPoint is not tried again.
func TestFailedPoint(t *testing.T) {
	c := &cursor{}
	c.ran(cut.Point{}, runOf(cut.Point{}, "x!"), nil)
	p := c.next()
	c.ran(p, runOf(p, "x!"), errors.New("a learner is left"))
	if got := tryAll(t, c, []string{"x!"}); !slices.Equal(got, []string{"after a: x! (1)"}) {
		t.Errorf("tried %q", got)
	}
}

// TestFailureBeforeCut: a failure of a run that was not cut says nothing about the point. It is tried again.
func TestFailureBeforeCut(t *testing.T) {
	track := newTrack(operation{name: "x"}, &cursor{})
	track.note(cut.Point{}, runOf(cut.Point{}, "x!"), nil, 0)
	p := track.next()
	track.note(p, cut.Log{}, errors.New("SSH does not answer"), 0)
	want := []string{"after a: x! (1)", "before a: x! (1)"} // the one with fewer misses first
	if got := tryAll(t, track.cursor, []string{"x!"}); !slices.Equal(got, want) {
		t.Errorf("tried %q, want %q", got, want)
	}
	if r := track.result(); r.Tried-r.Passed != 1 || !strings.Contains(r.Detail, "SSH does not answer") {
		t.Errorf("the failure is not counted: %+v", r)
	}
}
