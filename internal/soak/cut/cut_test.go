package cut

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func key(machine, command string, occurrence int) Key { return Key{machine, command, occurrence} }

func TestPoint(t *testing.T) {
	for _, p := range []Point{
		{},
		{Side: Before, Command: 1},
		{Side: After, Key: key("10.0.0.1", `run # "quoted"`, 17)},
		{Side: During, Key: key("10.0.0.1", "observe", 1), Wait: 20 * time.Millisecond},
	} {
		text, _ := strings.CutPrefix(p.Environment("log")[0], PointVariable+"=")
		if got, err := parse(text); err != nil || got != p {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"before:1", `{"side":"before"}`, `{"side":"between","command":1}`, `{"side":"after","command":-1}`,
		`{"side":"before","key":{"machine":"a","command":"b"}}`,
		`{"side":"before","command":1,"key":{"machine":"a","command":"b","occurrence":1}}`,
	} {
		if p, err := parse(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

func TestNormalize(t *testing.T) {
	for summary, want := range map[string]string{
		"observe the machine":                                    "observe the machine",
		"upload kube-apiserver 1.36.3":                           "upload kube-apiserver 1.36.3",
		"run rm -f -- /etc/x/.ca.key.kube-4711-0123456789abcdef": "run rm -f -- /etc/x/.ca.key*",
		"run mv /var/lib/etcd-archive/cp1-20260102T030405Z":      "run mv /var/lib/etcd-archive/cp1-*",
		"run at 2026-01-02T03:04:05.678+01:00 or so":             "run at * or so",
		"run member 8e9e05c52164694d":                            "run member *",
		"run 123e4567-e89b-12d3-a456-426614174000":               "run *",
		"run kill 1234567":                                       "run kill *",
		"run dial 10.99.0.11:2379":                               "run dial 10.99.0.11:2379",
		"run several\n  words\tin it":                            "run several words in it",
		"take the lease etcd-2f1d8c3b4a5e6f70":                   "take the lease etcd-*",
		"PUT /api/v1/namespaces/kube-system/secrets/x":           "PUT /api/v1/namespaces/kube-system/secrets/x",
	} {
		if got := Normalize(summary); got != want {
			t.Errorf("%q is normalized to %q, want %q", summary, got, want)
		}
	}
}

// steps are those of runInjected without an interruption.
var steps = []Step{
	{Key: key("a", "first", 1), Sides: []Side{Before, During, After}},
	{Key: key("b", "first", 1), Sides: []Side{Before, After}},
	{Key: key("a", "first", 2), Sides: []Side{Before, During, After}},
}

func TestInjector(t *testing.T) {
	for _, c := range []struct {
		at       Point
		cut      string
		commands int
	}{
		{Point{}, "", 3},
		{Point{Side: Before, Command: 1}, "a: first", 1},
		{Point{Side: After, Command: 1}, "a: first", 2}, // the second one began meanwhile
		{Point{Side: Before, Key: key("a", "first", 2)}, "a: first", 3},
		{Point{Side: After, Key: key("b", "first", 1)}, "b: first", 2},
		{Point{Side: During, Key: key("a", "first", 2)}, "a: first", 3},
		{Point{Side: During, Key: key("a", "first", 2), Wait: time.Hour}, "", 3},
		{Point{Side: During, Key: key("b", "first", 1)}, "", 3},
		{Point{Side: Before, Key: key("a", "first", 3)}, "", 3},
	} {
		got := runInjected(t, c.at)
		if got.Cut != (c.cut != "") || got.At != c.cut || got.Commands != c.commands {
			t.Errorf("cut %q: log is %+v, want %d commands, cut at %q", c.at, got, c.commands, c.cut)
		}
	}
}

func TestSteps(t *testing.T) {
	got := runInjected(t, Point{}).Steps
	for i := range got {
		if begun := got[i].Key.Machine == "a"; (got[i].Took > 0) != begun {
			t.Errorf("%s took %s", got[i].Key, got[i].Took)
		}
		got[i].Took = 0
	}
	if !reflect.DeepEqual(got, steps) {
		t.Errorf("the steps are %v, want %v", got, steps)
	}
}

// TestObservations are counted from the last other step of their machine on.
func TestObservations(t *testing.T) {
	k := NewInjector(Point{}, io.Discard, nil)
	k.Open()
	var got []string
	for _, step := range []struct{ machine, summary string }{
		{"a", host.ObserveSummary},
		{"a", host.ObserveSummary},
		{"a", "x"},
		{"a", host.ObserveSummary},
		{"b", "x"},
		{"a", host.ObserveSummary},
		{"a", "x"},
		{"a", host.ObserveSummary},
		{"b", host.ObserveSummary},
	} {
		key := k.key(step.machine, step.summary)
		if key.Observation() != (step.summary == host.ObserveSummary) {
			t.Errorf("whether %s is an observation is wrong", key)
		}
		got = append(got, key.String())
	}
	want := []string{
		"a: observe the machine (1)", "a: observe the machine (2)", "a: x (1)", "a: observe the machine after x (1) (1)",
		"b: x (1)", "a: observe the machine after x (1) (2)", "a: x (2)", "a: observe the machine after x (2) (1)",
		"b: observe the machine after x (1) (1)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
}

func TestNoLog(t *testing.T) {
	if got, err := ReadLog(filepath.Join(t.TempDir(), "log")); err != nil || !reflect.DeepEqual(got, Log{}) {
		t.Errorf("a log that is not there is %+v, %v", got, err)
	}
}

// runInjected runs three steps, one beginning before another has ended, until the injector ends
// them, and returns the log. The second one is a request.
func runInjected(t *testing.T, at Point) Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	killed, ended := make(chan struct{}), make(chan struct{})
	k := NewInjector(at, file, func() {
		close(killed)
		runtime.Goexit() // ends the goroutine in place of the process
	})
	go func() {
		defer close(ended)
		_, closed := k.Around("a", "not counted")
		closed()
		k.Open()
		running, first := k.Around("a", "first")
		running()
		running() // the command is repeated
		_, second := k.Around("b", "first")
		first()
		second()
		running, third := k.Around("a", "first")
		running()
		if at.Side == During && at.Wait == 0 && at.Key.Machine == "a" {
			<-killed // while the command runs
			return
		}
		third()
	}()
	<-ended
	log, err := ReadLog(path)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
