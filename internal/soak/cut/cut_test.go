package cut

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestPoint(t *testing.T) {
	for _, p := range []Point{{}, {Before, 1}, {After, 17}} {
		if got, err := Parse(p.String()); err != nil || got != p {
			t.Errorf("%q is read as %v, %v", p.String(), got, err)
		}
	}
	for _, text := range []string{"before", "before:0", "during:3", "after:-1", "7"} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

func TestInjector(t *testing.T) {
	for _, c := range []struct {
		at   Point
		want Log
	}{
		{Point{}, Log{Commands: 2}},
		{Point{Before, 1}, Log{Commands: 1, Cut: true, At: "a: first"}},
		{Point{After, 1}, Log{Commands: 2, Cut: true, At: "a: first"}}, // the second one began meanwhile
		{Point{After, 2}, Log{Commands: 2, Cut: true, At: "b: second"}},
		{Point{Before, 3}, Log{Commands: 2}},
	} {
		if got := runInjected(t, c.at); got != c.want {
			t.Errorf("cut at %q: log is %+v, want %+v", c.at, got, c.want)
		}
	}
}

func TestNoLog(t *testing.T) {
	if got, err := ReadLog(filepath.Join(t.TempDir(), "log")); err != nil || got != (Log{}) {
		t.Errorf("a log that is not there is %+v, %v", got, err)
	}
}

// runInjected runs two commands, one beginning before the other has ended, until the injector
// ends them, and returns the log.
func runInjected(t *testing.T, at Point) Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	k := NewInjector(at, file, runtime.Goexit) // ends the goroutine in place of the process
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Around("a", "not counted")()
		k.Open()
		first := k.Around("a", "first")
		second := k.Around("b", "second")
		first()
		second()
	}()
	<-ended
	log, err := ReadLog(path)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
