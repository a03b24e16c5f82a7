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

// watchLog records what one watch received. Its methods are safe for concurrent use.
type watchLog struct {
	began time.Time
	first *milestone

	mu                  sync.Mutex
	at                  string // revision of the latest event or bookmark
	number              uint64 // the same as a number
	seen                map[string]bool
	events, broken      int
	failed              int
	openings            Requests
	excuses             *excuser
	repeated, disorders int
	gaps                gapFinder
	errors              errorCounts
}

func newWatchLog(began time.Time, excuses *excuser) *watchLog {
	return &watchLog{
		began: began, first: newMilestone(), seen: map[string]bool{}, errors: errorCounts{},
		excuses: excuses,
	}
}

// start sets the revision, which comes from a list.
func (s *watchLog) start(revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = revision
	s.number, _ = strconv.ParseUint(revision, 10, 64) // 0: any event is later
}

func (s *watchLog) revision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// opened records an attempt to open a stream.
func (s *watchLog) opened(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	excuse := ""
	if o.err != nil {
		excuse = s.excuses.excuse(o.err)
		s.errors.add(time.Since(s.began), o.err, excuse)
	} else {
		s.first.pass()
	}
	count := counter{Requests: s.openings}
	count.count(time.Since(s.began), o, excuse != "")
	s.openings = count.Requests
}

// fail records an error that the server sent in a stream.
func (s *watchLog) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.errors.add(time.Since(s.began), err, "")
}

// ended records the end of a stream. A broken stream is counted and listed as an error, but is
// not a failure as long as the next stream misses nothing.
func (s *watchLog) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		s.broken++
		s.errors.add(time.Since(s.began), &endedError{err}, "")
	}
}

// add processes one event. Its error is one that the server sent.
func (s *watchLog) add(e event) error {
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
		s.errors.add(time.Since(s.began), fmt.Errorf("unexpected %s event of %s", e.Type, e.Object.Metadata.Name), "")
	}
	if number > s.number {
		s.at, s.number = e.Object.Metadata.ResourceVersion, number
	}
	return nil
}

func (s *watchLog) added(name string, number uint64) {
	s.events++
	s.gaps.success(time.Since(s.began))
	switch {
	case s.seen[name]:
		s.repeated++
	case number <= s.number:
		s.disorders++
	}
	s.seen[name] = true
}

// missed returns the names that the watch has not received.
func (s *watchLog) missed(names []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return without(names, s.seen)
}

// waitForFirst waits for the first stream.
func (s *watchLog) waitForFirst(ctx context.Context) error {
	return s.first.wait(ctx, func() []ErrorCount {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.errors.list()
	})
}

func (s *watchLog) report(name string, written []string, stopped time.Duration) Watch {
	missed := s.missed(written)
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := s.openings.Tried - s.openings.Failed
	return Watch{
		Name: name, Events: s.events, Openings: s.openings, Resumed: max(0, opened-1), Broken: s.broken, Failed: s.failed,
		Missed: missed, Repeated: s.repeated, Disordered: s.disorders,
		Gap: s.gaps.longestUntil(stopped), Errors: s.errors.list(),
	}
}
