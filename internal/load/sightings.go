package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// sightings is what one watch saw. Its methods may run at the same time.
type sightings struct {
	began time.Time
	first *milestone

	mu                  sync.Mutex
	at                  string // revision of the latest event or bookmark
	number              uint64 // the same as a number
	seen                map[string]bool
	events, opens       int
	failed              int
	repeated, disorders int
	rhythm              rhythm
	faults              faults
}

func newSightings(began time.Time) *sightings {
	return &sightings{began: began, first: newMilestone(), seen: map[string]bool{}, faults: faults{}}
}

// start puts the watch to a revision that a list gave.
func (s *sightings) start(revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = revision
	s.number, _ = strconv.ParseUint(revision, 10, 64) // 0: any event is later
}

func (s *sightings) revision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// opened is a stream that the server has granted.
func (s *sightings) opened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens++
	s.first.pass()
}

// fail is a stream that was not granted, or that the server ended with an error.
func (s *sightings) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.faults.add(time.Since(s.began), err)
}

// ended is the end of a stream. A clean one is nothing to speak of; a cut one is
// told, but it is no failure either, as long as the next one misses nothing.
func (s *sightings) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		s.faults.add(time.Since(s.began), &endedError{err})
	}
}

// see takes one event. Its error is one that the server sent.
func (s *sightings) see(e event) error {
	if e.Type == "ERROR" {
		return &statusError{e.Object.Code, e.Object.Message}
	}
	number, err := strconv.ParseUint(e.Object.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("%s event without a revision: %w", e.Type, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Type {
	case "ADDED":
		s.added(e.Object.Metadata.Name, number)
	case "BOOKMARK": // it may repeat the revision of the last event
	default:
		s.failed++
		s.faults.add(time.Since(s.began), fmt.Errorf("unexpected %s event of %s", e.Type, e.Object.Metadata.Name))
	}
	if number > s.number {
		s.at, s.number = e.Object.Metadata.ResourceVersion, number
	}
	return nil
}

func (s *sightings) added(name string, number uint64) {
	s.events++
	s.rhythm.beat(time.Since(s.began))
	switch {
	case s.seen[name]:
		s.repeated++
	case number <= s.number:
		s.disorders++
	}
	s.seen[name] = true
}

// missed gives those of names that the watch has not seen.
func (s *sightings) missed(names []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return without(names, s.seen)
}

// awaitFirst waits for the first stream.
func (s *sightings) awaitFirst(ctx context.Context) error {
	return s.first.await(ctx, func() []Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.faults.list()
	})
}

func (s *sightings) report(name string, written []string, stopped time.Duration) Watch {
	missed := s.missed(written)
	s.mu.Lock()
	defer s.mu.Unlock()
	return Watch{
		Name: name, Events: s.events, Opened: s.opens, Resumed: max(0, s.opens-1), Failed: s.failed,
		Missed: missed, Repeated: s.repeated, Disordered: s.disorders,
		Gap: s.rhythm.until(stopped), Faults: s.faults.list(),
	}
}
