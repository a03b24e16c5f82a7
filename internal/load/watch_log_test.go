package load

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

func added(name, revision string) event {
	e := event{Type: "ADDED"}
	e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion = name, revision
	return e
}

func bookmark(revision string) event {
	e := added("", revision)
	e.Type = "BOOKMARK"
	return e
}

func TestWatchLog(t *testing.T) {
	written := []string{"a", "b", "c"}
	for name, c := range map[string]struct {
		events []event
		want   Watch // only the fields that are compared below
		at     string
	}{
		"in order": {
			[]event{added("a", "8"), added("b", "9"), bookmark("9"), added("c", "10"), bookmark("14")},
			Watch{Events: 3},
			"14",
		},
		"missed": {
			[]event{added("a", "8"), bookmark("9"), added("c", "10")},
			Watch{Events: 2, Missed: []string{"b"}},
			"10",
		},
		"repeated": {
			[]event{added("a", "8"), added("b", "9"), added("b", "9"), added("c", "10")},
			Watch{Events: 4, Repeated: 1},
			"10",
		},
		"out of order": {[]event{added("b", "9"), added("a", "8"), added("c", "10")}, Watch{Events: 3, Disordered: 1}, "10"},
		"before its revision": {
			[]event{added("a", "7"), added("b", "9"), added("c", "10")}, Watch{Events: 3, Disordered: 1}, "10",
		},
		"after a bookmark that was too far": {
			[]event{added("a", "8"), bookmark("10"), added("b", "9"), added("c", "11")}, Watch{Events: 3, Disordered: 1}, "11",
		},
		"written, but never acknowledged": {
			[]event{added("a", "8"), added("x", "9"), added("b", "10"), added("c", "11")},
			Watch{Events: 4},
			"11",
		},
	} {
		s := newWatchLog(time.Now(), Unnoticed().excusing(WatchOpening))
		s.start("7")
		for _, e := range c.events {
			if err := s.add(e); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := s.report(name, written, time.Second)
		if got.Events != c.want.Events || !slices.Equal(got.Missed, c.want.Missed) || got.Repeated != c.want.Repeated ||
			got.Disordered != c.want.Disordered || s.revision() != c.at {
			t.Errorf("%s, at revision %s: %+v", name, s.revision(), got)
		}
	}
}

func TestWatchLogErrors(t *testing.T) {
	s := newWatchLog(time.Now(), Unnoticed().excusing(WatchOpening))
	s.start("7")
	expired := event{Type: "ERROR"}
	expired.Object.Code, expired.Object.Message = 410, "too old resource version"
	if err := s.add(expired); !answered(err, 410) {
		t.Errorf("an expired revision is answered with %v", err)
	}
	deleted := added("a", "8")
	deleted.Type = "DELETED"
	if err := s.add(deleted); err != nil || s.revision() != "8" {
		t.Errorf("a stream goes on after an event that nobody expected: %v, at %s", err, s.revision())
	}
	s.fail(errors.New("not granted"))
	s.ended(io.EOF)
	s.ended(io.ErrUnexpectedEOF)
	for _, o := range []outcome{{}, {err: &statusError{code: 503}}, {err: io.EOF, repeated: true}, {}} {
		s.opened(o)
	}
	got := s.report("", nil, 0)
	if got.Failed != 2 || got.Broken != 1 || got.Resumed != 1 {
		t.Errorf("an event that nobody expected, an error, and a broken stream: %+v", got)
	}
	if want := (Requests{Tried: 4, Failed: 2, Excused: 1, Repeated: 1, Refused: 1}); got.Openings != want {
		t.Errorf("openings: %+v, want %+v", got.Openings, want)
	}
}
