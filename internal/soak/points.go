package soak

import (
	"math/rand/v2"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// cursor selects the points at which an operation is interrupted, one after the other.
type cursor interface {
	done() bool      // no points are left
	next() cut.Point // for the next run; the zero Point does not interrupt it
	ran(cut.Log)     // receives the log of the run
}

// everyPoint covers the time before and after every command, or every n-th command. The number
// of commands varies slightly between runs, so it continues until the number exceeds that of
// every run.
type everyPoint struct {
	every   int // 0 and 1: all commands
	last    cut.Point
	longest int // number of commands of the longest run
	ended   bool
}

func (e *Env) everyPoint() *everyPoint { return &everyPoint{every: e.Every} }

func (e *everyPoint) done() bool { return e.ended }

func (e *everyPoint) next() cut.Point {
	switch {
	case e.longest == 0: // the first run only counts
	case e.last.Side == cut.Before:
		e.last.Side = cut.After
	default:
		e.last = cut.Point{Side: cut.Before, Command: e.last.Command + max(e.every, 1)}
	}
	return e.last
}

func (e *everyPoint) ran(log cut.Log) {
	e.longest = max(e.longest, log.Commands)
	e.ended = !log.Cut && (e.last.Command > e.longest || e.longest == 0)
}

// randomPoints selects points at random, with equal probability.
type randomPoints struct {
	random  *rand.Rand
	left    int // remaining points
	longest int
	misses  int // consecutive runs that ended before their point
}

// maxMisses limits how often a missed point is replaced.
const maxMisses = 5

func (s *randomPoints) done() bool { return s.left == 0 }

func (s *randomPoints) next() cut.Point {
	if s.longest == 0 { // the first run only counts
		return cut.Point{}
	}
	side := []cut.Side{cut.Before, cut.After}[s.random.IntN(2)]
	return cut.Point{Side: side, Command: 1 + s.random.IntN(s.longest)}
}

func (s *randomPoints) ran(log cut.Log) {
	counting := s.longest == 0 && log.Commands > 0
	s.longest = max(s.longest, log.Commands)
	switch {
	case counting:
	case log.Cut:
		s.misses = 0
		s.left--
	case s.misses == maxMisses:
		s.left = 0
	default:
		s.misses++
	}
}
