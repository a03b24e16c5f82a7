package soak

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

const (
	// maxAttempts is how often a point is tried that the runs do not reach, for example because
	// waiting took fewer commands. Then it counts as never cut.
	maxAttempts = 3
	// longestWait limits the time from the start of a command to a cut during it.
	longestWait = time.Second
)

// cursor selects the points at which an operation is interrupted, one in each run. The first run
// is not interrupted and lists the points; it is repeated until it passes. Points that are first seen in a later run
// are added.
type cursor struct {
	every  int        // only the points of every n-th step in the order of the list; 0 and 1: all
	random *rand.Rand // selects at random; nil: in the order of the list
	left   int        // with random: how many points remain to be cut

	listed bool // an undisturbed run is over
	steps  int  // on the list
	points []*point
}

// point is one point of the list.
type point struct {
	at       cut.Point
	took     time.Duration // of the command, in the run in which it was shortest
	step     int           // number of its step on the list, from 1; 0: only in the recorded file so far
	misses   int           // runs that ended before it
	cut      bool          // the process was ended there
	failed   bool          // and what followed was wrong
	commit   string        // at which it was cut in an earlier run of kube-lab; "" if it was not
	failedAt string        // the commit of an earlier run of kube-lab after whose cut something was wrong; "" if none was
	listedAt string        // the commit that the record has of it, if it was not cut
	here     bool          // an earlier run of kube-lab listed it at the present commit
	selected bool          // by every
}

// newCursor returns the cursor of an operation, with the points of an earlier run of kube-lab.
func (e *Env) newCursor(track string) *cursor {
	c := &cursor{every: e.Every, left: e.Points, points: e.record.load(track)}
	if e.Points > 0 {
		c.random = e.Random
	}
	return c
}

// done reports whether no point is left.
func (c *cursor) done() bool {
	return c.listed && c.remaining() == 0
}

// open returns the points that are to be tried: those with the fewest misses first, so that a
// point is not tried again under the same conditions.
func (c *cursor) open() []*point {
	for misses := range maxAttempts {
		var open []*point
		for _, p := range c.points {
			if p.selected && !p.over() && p.misses == misses {
				open = append(open, p)
			}
		}
		if len(open) > 0 {
			return open
		}
	}
	return nil
}

// remaining returns how many points are still to be tried in this run of kube-lab.
func (c *cursor) remaining() int {
	n := 0
	for _, p := range c.points {
		if p.selected && !p.over() && p.misses < maxAttempts {
			n++
		}
	}
	if c.random != nil {
		n = min(n, c.left)
	}
	return n
}

// exists reports whether a run of the present commit has listed it.
func (p *point) exists() bool { return p.here || p.step > 0 || p.cut || p.failed }

func (p *point) over() bool { return p.cut || p.failed || p.commit != "" }

// next returns the point for the next run; the zero Point does not interrupt it.
func (c *cursor) next() cut.Point {
	if !c.listed {
		return cut.Point{}
	}
	open := c.open()
	p := open[0]
	if c.random != nil { // the order of the list varies, and a seed selects the same points
		slices.SortFunc(open, func(a, b *point) int { return cmp.Compare(a.at.String(), b.at.String()) })
		p = open[c.random.IntN(len(open))]
	}
	at := p.at
	if at.Side == cut.During { // well before its end, and earlier if it had ended by then
		at.Wait = min(p.took/3, longestWait) >> p.misses
	}
	return at
}

// ran records a run: its log, and whether what followed was right.
func (c *cursor) ran(at cut.Point, log cut.Log, err error) {
	for _, s := range log.Steps {
		c.list(s, log.Cut || err != nil)
	}
	at.Wait = 0
	if at == (cut.Point{}) {
		if err != nil || log.Cut { // the rest of its points is unknown: the next run lists them
			return
		}
		c.listed = true
		for _, p := range c.points { // of an earlier run of kube-lab, and not in this one
			p.selected = p.selected || p.step == 0 && (p.here || p.failedAt != "")
		}
		return
	}
	p := c.find(at)
	if p == nil {
		p = &point{at: at}
		c.points = append(c.points, p)
	}
	if !log.Cut { // a failure says nothing about what follows a cut there
		p.misses++
		return
	}
	p.cut, p.failed = err == nil, err != nil
	c.left--
}

// list adds the points of a step, unless they are listed. interrupted says that the run ended early somewhere.
func (c *cursor) list(s cut.Step, interrupted bool) {
	number := 0
	for _, side := range []cut.Side{cut.Before, cut.During, cut.After} {
		p := c.find(cut.Point{Side: side, Key: s.Key})
		if p != nil && p.step > 0 {
			number = p.step
		}
	}
	if number == 0 {
		c.steps++
		number = c.steps
	}
	for _, side := range sidesOf(s, interrupted) {
		at := cut.Point{Side: side, Key: s.Key}
		p := c.find(at)
		if p == nil {
			p = &point{at: at}
			c.points = append(c.points, p)
		}
		p.step, p.selected = number, number%max(c.every, 1) == 0
		if s.Took > 0 && (p.took == 0 || s.Took < p.took) {
			p.took = s.Took
		}
	}
}

// sidesOf returns the sides of a step at which it is cut. An observation changes nothing: before and after it,
// everything is as it is after the step before it. So only the first one is cut that follows a step of its machine.
func sidesOf(s cut.Step, interrupted bool) []cut.Side {
	switch {
	case !s.Key.Observation():
		return s.Sides
	case s.Key.Occurrence > 1:
		return nil
	case slices.Contains(s.Sides, cut.During):
		return []cut.Side{cut.During}
	case interrupted: // it may not have begun when the process ended
		return nil
	}
	return s.Sides
}

func (c *cursor) find(at cut.Point) *point {
	for _, p := range c.points {
		if p.at == at {
			return p
		}
	}
	return nil
}
