// Package cut records the remote commands and the changing requests of a provider process, and ends
// the process at one of them, like a crash or a power failure: without cleanup.
package cut

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Side is when the process ends, relative to a step.
type Side string

// Before is right before a step begins, After is right after it has ended: a command on the
// machine, or a request that was answered. During is while a command runs: the machine has
// confirmed that it started the command, and Point.Wait has passed since. A request is not cut
// during its run, because the process cannot tell when the server begins with it.
const (
	Before Side = "before"
	During Side = "during"
	After  Side = "after"
)

// Point is where a provider is interrupted. The zero Point is nowhere.
type Point struct {
	Side Side `json:"side"`
	Key  Key  `json:"key,omitzero"`
	// Command is the number of the step in the run, from 1, instead of a Key. It is for runs of
	// which no earlier one is known.
	Command int `json:"command,omitzero"`
	// Wait is the time from the start of the command on the machine to a cut During it. If the
	// command ends earlier, the process is not interrupted. No fixed time is short enough for every
	// command and long enough that it has begun to work, so the caller takes a fraction of the time
	// that the command took in an earlier run.
	Wait time.Duration `json:"wait,omitzero"`
}

// at reports whether p is this side of the step of that key and number.
func (p Point) at(side Side, k Key, number int) bool {
	return p.Side == side && (p.Key == k || p.Command == number)
}

func (p Point) String() string {
	switch {
	case p == (Point{}):
		return ""
	case p.Command > 0:
		return fmt.Sprintf("%s command %d", p.Side, p.Command)
	}
	return fmt.Sprintf("%s %s", p.Side, p.Key)
}

// parse parses the value of PointVariable.
func parse(text string) (Point, error) {
	if text == "" {
		return Point{}, nil
	}
	var p Point
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Point{}, fmt.Errorf("%q is no point to cut at: %w", text, err)
	}
	known := p.Side == Before || p.Side == During || p.Side == After
	if number := cmp.Or(p.Command, p.Key.Occurrence); !known || number < 1 || (p.Command > 0) == (p.Key != Key{}) {
		return Point{}, fmt.Errorf("%q is no point to cut at: want a side, and a key or a number", text)
	}
	return p, nil
}

// The environment variables that tell a provider process where to end, and where to write its
// log.
const (
	PointVariable = "KUBE_CUT"
	LogVariable   = "KUBE_CUT_LOG"
)

// Environment returns the variables that make a provider write its steps to the file log and end at
// p.
func (p Point) Environment(log string) []string {
	text := ""
	if p != (Point{}) {
		encoded, _ := json.Marshal(p) // never fails: strings and numbers
		text = string(encoded)
	}
	return []string{PointVariable + "=" + text, LogVariable + "=" + log}
}
