package bench

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		ratio  float64
		met    bool
	}{
		{"within a multiple", ratio("apply", series{15}, series{10}, 1.5, "s"), 1.5, true},
		{"beyond a multiple", ratio("apply", series{16}, series{10}, 1.5, "s"), 1.6, false},
		{"within a difference", difference("plan", series{2}, series{1.5}, 1, "s"), 0.5, true},
		{"beyond a difference", difference("plan", series{3}, series{1.5}, 1, "s"), 1.5, false},
		{"within a maximum", atMost("restore", series{50, 60, 70}, 60, "s"), 0, true},
		{"beyond a maximum", atMost("restore", series{50, 61, 70}, 60, "s"), 0, false},
		{"a reference without a goal", ratioTo("replace", series{28, 30, 33}, series{9, 10, 12}, "s"), 3, true},
		{"no goal", figure("memory", 50, "MiB"), 0, true},
	} {
		if c.result.Ratio != c.ratio || c.result.Met != c.met {
			t.Errorf("%s: ratio %v, met %v; want %v, %v", c.name, c.result.Ratio, c.result.Met, c.ratio, c.met)
		}
	}
}

// TestFile: what is written has the commit and the date, and can be read again.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.json")
	run, err := newRun(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	run.Results = []Result{ratio("apply", series{15}, series{10}, 1.5, "s"), figure("memory", 50, "MiB")}
	if err := write(t.Context(), path, &run); err != nil {
		t.Fatal(err)
	}
	read, err := jsonfile.ReadRun[Result](path)
	if err != nil || !reflect.DeepEqual(read, run) || len(read.Commit) < 40 || read.Date.IsZero() {
		t.Errorf("%v: %+v, want %+v", err, read, run)
	}
	run.Commit = "1111" // at which the checkout is not any more
	if err := write(t.Context(), path, &run); err != nil || run.Commit != "1111-dirty" {
		t.Errorf("the checkout has changed: %q, %v", run.Commit, err)
	}
	if run, err := newRun(t.Context(), ""); err != nil || run.Commit != "" || write(t.Context(), "", &run) != nil {
		t.Errorf("without a file: %+v, %v", run, err)
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

func TestSeries(t *testing.T) {
	for _, c := range []struct {
		values              series
		least, median, most float64
	}{
		{series{4}, 4, 4, 4},
		{series{2, 1}, 1, 1.5, 2},
		{series{3, 1, 2}, 1, 2, 3},
		{series{9, 1, 3, 2}, 1, 2.5, 9},
	} {
		if c.values.min() != c.least || c.values.median() != c.median || c.values.max() != c.most {
			t.Errorf("%v: %v, %v, %v", c.values, c.values.min(), c.values.median(), c.values.max())
		}
	}
}

func TestTimes(t *testing.T) {
	all := times{"apply": {1}}
	all.add(times{"apply": {2}, "plan": {3}})
	if got := all.by("terraform"); !slices.Equal(got["terraform: apply"], series{1, 2}) || len(got) != 2 {
		t.Errorf("the times are %v", got)
	}
}

func TestTableWithoutGoal(t *testing.T) {
	table := Table([]Result{ratioTo("replace", series{28, 30, 33}, series{9, 10, 12}, "s")})
	row := strings.Fields(strings.Split(table, "\n")[1])
	want := []string{"replace", "30.00", "s", "28.00–33.00", "10.00", "s", "9.00–12.00", "3.00", "–"}
	if !slices.Equal(row, want) {
		t.Errorf("the row is %q, want %q", row, want)
	}
}

// TestFailedRound: the rounds before one that fails are measured, and half of a round is not.
func TestFailedRound(t *testing.T) {
	b := &bench{log: t.Output()}
	all, err := b.inRounds(3, func(round int) (times, error) {
		took := times{"apply": {float64(round + 10)}}
		if round == 2 {
			return took, errors.New("the machine does not answer")
		}
		return took, nil
	})
	if err == nil || !strings.Contains(err.Error(), "round 3") {
		t.Errorf("error %v", err)
	}
	if want := (series{10, 11}); !slices.Equal(all["apply"], want) {
		t.Errorf("measured %v, want %v", all["apply"], want)
	}
}
