// Package cut counts the remote commands of a provider process and ends the process at one of
// them, like a crash or a power failure: without cleanup.
package cut

import (
	"fmt"
	"strconv"
	"strings"
)

// Side is the side of a command on which the process ends.
type Side string

// Before is right before a command is sent, After is right after it has ended on the machine.
const (
	Before Side = "before"
	After  Side = "after"
)

// Point is where a provider is interrupted. The zero Point is nowhere.
type Point struct {
	Side    Side
	Command int // the first is 1
}

func (p Point) String() string {
	if p == (Point{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.Side, p.Command)
}

// Parse parses the output of String.
func Parse(text string) (Point, error) {
	if text == "" {
		return Point{}, nil
	}
	side, number, _ := strings.Cut(text, ":")
	command, err := strconv.Atoi(number)
	if err != nil || command < 1 || Side(side) != Before && Side(side) != After {
		return Point{}, fmt.Errorf("%q is no point to cut at: want before:N or after:N", text)
	}
	return Point{Side: Side(side), Command: command}, nil
}

// The environment variables that tell a provider process where to end, and where to write its
// log.
const (
	PointVariable = "KUBE_CUT"
	LogVariable   = "KUBE_CUT_LOG"
)

// Environment returns the variables that make a provider write its commands to the file log and
// end at p.
func (p Point) Environment(log string) []string {
	return []string{PointVariable + "=" + p.String(), LogVariable + "=" + log}
}
