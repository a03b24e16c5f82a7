package host

import (
	_ "embed"
	"encoding/base64"
	"strings"
)

// Process is the main process of a running unit, or of a container that a kubelet runs.
type Process struct {
	Running bool
	Flags   map[string]string // from its command line, "--name=value" or "--name", without dashes
	// The limits of the unit as systemd prints them, or of the container's cgroup; "" if unset.
	MemoryMax string
	CPUQuota  string // CPU time per second: "2s" is two CPUs
	// What is reserved for it, as far as it is in effect: bytes of memory, and shares of processors and disks; "" if
	// nothing is.
	MemoryMin string
	CPUWeight string
	IOWeight  string
	// CPURequest: the kubelet has given the container a share of processors that other Pods do not get.
	CPURequest bool
	// NotInEffect are the reservations that the unit has and its slice does not, in words.
	NotInEffect []string
	// Unseen is why neither limits nor reservations show; "" if they do.
	Unseen string
}

// ProcessFunctions defines the functions processes and containerized. ReadProcesses parses their output.
//
//go:embed unit_process.sh
var ProcessFunctions Script

// DiskFunctions defines functions that print the disks below a directory, and weighs_below, whose output ReadProcesses
// parses: whether shares of these disks are in effect.
//
//go:embed disks.sh
var DiskFunctions Script

// ProcessScript returns a script for Query.Script. ReadProcesses parses its output.
func ProcessScript(units ...string) Script {
	return ProcessFunctions + "processes " + Words(units...) + "\n"
}

// ReadProcesses parses the lines of ProcessScript, by unit, and of containerized, by name. Other lines are ignored.
func ReadProcesses(output string) map[string]Process {
	processes := map[string]Process{}
	reserved, groups := readReservations(output), readGroups(output)
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 6 || fields[0] != "process" {
			continue
		}
		p := Process{MemoryMax: parseLimit(fields[2]), CPUQuota: parseLimit(fields[3])}
		p.Flags, p.Running = parseFlags(fields[4])
		if fields[5] == "container" {
			groups[fields[1]].describe(&p)
		} else {
			reserved.describe(&p, fields[1])
		}
		processes[fields[1]] = p
	}
	return processes
}

// parseFlags parses a command line in base64. running is false if there is none. Flags in a
// form that the programs do not use are skipped.
func parseFlags(encoded string) (flags map[string]string, running bool) {
	flags = map[string]string{}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(text) == 0 {
		return flags, false
	}
	for _, word := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if flagPattern.MatchString(name) && len(value) <= maxFlagLength && len(flags) < maxFlags {
			flags[name] = value
		}
	}
	return flags, true
}

// parseLimit parses a limit as systemd prints it; "" if unset.
func parseLimit(text string) string {
	if text == "infinity" || !limitPattern.MatchString(text) {
		return ""
	}
	return text
}
