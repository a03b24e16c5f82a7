package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		ratio  float64
		met    bool
	}{
		{"within a multiple", ratio("apply", 15, 10, 1.5, "s"), 1.5, true},
		{"beyond a multiple", ratio("apply", 16, 10, 1.5, "s"), 1.6, false},
		{"within a difference", difference("plan", 2, 1.5, 1, "s"), 0.5, true},
		{"beyond a difference", difference("plan", 3, 1.5, 1, "s"), 1.5, false},
		{"a reference without a goal", ratioTo("replace", 30, 10, "s"), 3, true},
		{"no goal", figure("memory", 50, "MiB"), 0, true},
	} {
		if c.result.Ratio != c.ratio || c.result.Met != c.met {
			t.Errorf("%s: ratio %v, met %v; want %v, %v", c.name, c.result.Ratio, c.result.Met, c.ratio, c.met)
		}
	}
}

func TestHighWater(t *testing.T) {
	for status, want := range map[string]float64{
		"Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n": 2,
		"Name:\tkthread\n": 0,
		"VmHWM:\n":         0,
	} {
		if got := highWater(status); got != want {
			t.Errorf("peak of %q is %v MiB, want %v", status, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{4}, 4},
		{[]float64{2, 1}, 1.5},
		{[]float64{3, 1, 2}, 2},
		{[]float64{9, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTableWithoutGoal(t *testing.T) {
	table := Table([]Result{ratioTo("replace", 30, 10, "s")})
	row := strings.Fields(strings.Split(table, "\n")[1])
	if want := []string{"replace", "30.00", "s", "10.00", "s", "3.00", "–"}; !slices.Equal(row, want) {
		t.Errorf("the row is %q, want %q", row, want)
	}
}
