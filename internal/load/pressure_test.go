package load

import (
	"testing"
	"time"
)

// TestParsePressure: the total is read from the line of what waited at all, also beside other lines.
func TestParsePressure(t *testing.T) {
	const text = "some avg10=66.94 avg60=35.95 avg300=15.61 total=61817078\n" +
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
	if total, err := parsePressure(text); err != nil || total != 61817078*time.Microsecond {
		t.Errorf("%v, %v", total, err)
	}
	for _, bad := range []string{"", "full avg10=0.00 total=7\n", "some\n", "some total=x\n", "some avg10=0.00\n"} {
		if total, err := parsePressure(bad); err == nil {
			t.Errorf("%q: %v", bad, total)
		}
	}
}

// TestPressure: the share of a gap is that of the samples around it, and that of the run is of all samples.
func TestPressure(t *testing.T) {
	s := func(at, total time.Duration) psiSample { return psiSample{at * time.Second, total * time.Second} }
	log := pressureLog{samples: []psiSample{s(0, 10), s(2, 10), s(4, 12), s(6, 14), s(8, 14), s(10, 15)}}
	for name, c := range map[string]struct {
		gap  Gap
		want float64
	}{
		"between samples":     {Gap{At: 2500 * time.Millisecond, Length: 3 * time.Second}, 1},
		"shorter than one":    {Gap{At: 4500 * time.Millisecond, Length: time.Second}, 1},
		"partly":              {Gap{At: 5 * time.Second, Length: 3 * time.Second}, 0.5},
		"until the end":       {Gap{At: 9 * time.Second, Length: time.Second}, 0.5},
		"longer than the run": {Gap{At: 9 * time.Second, Length: time.Minute}, 0.5},
		"none":                {Gap{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := log.pressure(c.gap)
			if got == nil || got.Run != 0.5 || got.Gap != c.want {
				t.Errorf("%+v, want %v of the gap", got, c.want)
			}
		})
	}
	if got := (&pressureLog{samples: log.samples[:1]}).pressure(Gap{}); got != nil {
		t.Errorf("of one sample: %+v", got)
	}
}
