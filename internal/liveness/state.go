package liveness

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// State is what the last round has observed of a component: a line with the invocation of its
// unit, whether it has been live since then (1 or 0), the failed probes in a row, the machine's
// uptime since when it is not ready (0: it is), and for how many seconds that is.
type State struct {
	Invocation string
	Lived      bool
	Failures   int
	Unready    time.Duration
}

var stateForm = regexp.MustCompile(`^([0-9a-f]{32}) ([01]) ([0-9]{1,6}) [0-9]{1,9} ([0-9]{1,9})\n$`)

// readState parses a state. What does not parse is nothing known.
func readState(content string) (State, bool) {
	match := stateForm.FindStringSubmatch(content)
	if match == nil {
		return State{}, false
	}
	failures, _ := strconv.Atoi(match[3]) // digits that fit
	unready, _ := strconv.Atoi(match[4])
	return State{
		Invocation: match[1], Lived: match[2] == "1", Failures: failures, Unready: time.Duration(unready) * time.Second,
	}, true
}

// NotReady returns why a unit must be restarted: its process has not been ready for longer than
// a start may take. It returns "" for a process that was started after the last round.
func (p Probe) NotReady(facts host.Facts, unit string) string {
	state, ok := readState(facts.Files[p.StatePath(unit)].Content)
	if !ok || facts.Units[p.Job().Timer()].Active != "active" || state.Unready <= p.pace().Start ||
		state.Invocation != facts.Units[unit].Invocation {
		return ""
	}
	text := fmt.Sprintf("it has not been ready for longer than %s", p.pace().Start)
	if state.Failures > 0 {
		text += fmt.Sprintf(" (%d liveness probes in a row failed)", state.Failures)
	}
	return text
}
