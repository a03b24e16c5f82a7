package bench

import "testing"

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
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median is %v, want 2", got)
	}
}
