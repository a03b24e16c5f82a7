package host

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// SystemdTime is the format in which systemctl prints a time under TZ=UTC and LC_ALL=C.
const SystemdTime = "Mon 2006-01-02 15:04:05 MST"

// parseUnits parses `systemctl show`: one block per queried unit, in the queried order (an
// alias answers with another Id), separated by blank lines.
func parseUnits(lines, asked []string) (map[string]UnitState, error) {
	units := map[string]UnitState{}
	if len(lines) == 0 {
		return units, nil // no systemd
	}
	blocks := []map[string]string{{}}
	for _, line := range lines {
		if line == "" {
			blocks = append(blocks, map[string]string{})
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		blocks[len(blocks)-1][key] = value
	}
	if len(blocks) != len(asked) {
		return nil, fmt.Errorf("systemctl printed %d units, want %d", len(blocks), len(asked))
	}
	for i, name := range asked {
		state, err := parseUnit(blocks[i])
		if err != nil {
			return nil, fmt.Errorf("state of %s: %w", name, err)
		}
		units[name] = state
	}
	return units, nil
}

func parseUnit(properties map[string]string) (UnitState, error) {
	state := UnitState{NeedReload: properties["NeedDaemonReload"] == "yes"}
	var errs []error
	word := func(to *string, name string) {
		var err error
		*to, err = matchingOrEmpty(statePattern, name, properties[name])
		errs = append(errs, err)
	}
	number := func(to *int, name string, most int64) {
		if properties[name] == "" { // not every type of unit has it
			return
		}
		n, err := parseCount(name, properties[name], most)
		*to = int(n)
		errs = append(errs, err)
	}
	word(&state.Load, "LoadState")
	word(&state.Active, "ActiveState")
	word(&state.Sub, "SubState")
	word(&state.Enabled, "UnitFileState")
	word(&state.Result, "Result")
	var err error
	state.Invocation, err = matchingOrEmpty(machineIDPattern, "InvocationID", properties["InvocationID"])
	errs = append(errs, err)
	number(&state.MainPID, "MainPID", maxProcessID)
	number(&state.Restarts, "NRestarts", maxRestarts)
	var job int
	number(&job, "Job", math.MaxUint32)
	state.Queued = job > 0
	if text := properties["ActiveEnterTimestamp"]; text != "" && text != "n/a" {
		since, err := time.Parse(SystemdTime, text)
		if err != nil {
			err = fmt.Errorf("ActiveEnterTimestamp reads %s", problem.Quote(text))
		}
		state.Since = since
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return UnitState{}, err
	}
	return state, nil
}
