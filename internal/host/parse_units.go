package host

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// systemdTime is how systemctl prints a time under TZ=UTC and LC_ALL=C.
const systemdTime = "Mon 2006-01-02 15:04:05 MST"

// parseUnits reads `systemctl show`: one block per asked unit, in the order
// they were asked (an alias answers with another Id), a blank line between two.
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
		return nil, fmt.Errorf("systemctl told of %d units, asked for %d", len(blocks), len(asked))
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
	state := UnitState{
		Load:       properties["LoadState"],
		Active:     properties["ActiveState"],
		Sub:        properties["SubState"],
		Enabled:    properties["UnitFileState"],
		Result:     properties["Result"],
		NeedReload: properties["NeedDaemonReload"] == "yes",
	}
	var err error
	// Not every type of unit has these.
	if text := properties["MainPID"]; text != "" {
		if state.MainPID, err = strconv.Atoi(text); err != nil {
			return UnitState{}, fmt.Errorf("MainPID: %w", err)
		}
	}
	if text := properties["NRestarts"]; text != "" {
		if state.Restarts, err = strconv.Atoi(text); err != nil {
			return UnitState{}, fmt.Errorf("NRestarts: %w", err)
		}
	}
	if text := properties["ActiveEnterTimestamp"]; text != "" && text != "n/a" {
		if state.Since, err = time.Parse(systemdTime, text); err != nil {
			return UnitState{}, fmt.Errorf("ActiveEnterTimestamp: %w", err)
		}
	}
	return state, nil
}
