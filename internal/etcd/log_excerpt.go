package etcd

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// logRead is how many lines of the unit's log are read: a member that exits again and again
	// writes about 100 each time.
	logRead = 400
	// logShown is how many of them a diagnostic shows.
	logShown = 20
	// logWidth is the length at which a log line is truncated: etcd writes all its arguments,
	// and the stack of each failure, on one line.
	logWidth = 500
)

// ordinary matches etcd's messages that are no errors (zap's levels). Lines of the service manager
// and of a panic do not match.
var ordinary = regexp.MustCompile(`\{"level":"(debug|info|warn)"`)

// logExcerpt returns what a log says about a failure: the last errors, and the last lines. A
// server that fails to start reports the reason and then, in many lines, how it stops.
func logExcerpt(log string) string {
	lines := strings.Split(log, "\n")
	shown := make([]bool, len(lines))
	left := logShown
	show := func(i int) {
		if left > 0 && !shown[i] {
			shown[i] = true
			left--
		}
	}
	for i := len(lines) - 1; i >= max(0, len(lines)-logShown/2); i-- {
		show(i)
	}
	for i, line := range slices.Backward(lines) {
		if !ordinary.MatchString(line) {
			show(i)
		}
	}
	for i := range slices.Backward(lines) {
		show(i)
	}
	var out []string
	for i, line := range lines {
		switch {
		case shown[i]:
			out = append(out, truncated(line))
		case i > 0 && shown[i-1]:
			out = append(out, "[…]")
		}
	}
	return strings.Join(out, "\n")
}

func truncated(line string) string {
	if len(line) <= logWidth {
		return line
	}
	return strings.ToValidUTF8(line[:logWidth], "") + "…"
}
