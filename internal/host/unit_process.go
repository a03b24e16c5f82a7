package host

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"regexp"
	"strings"
)

// Process is the main process of a running unit.
type Process struct {
	Running bool
	Flags   map[string]string // from its command line, "--name=value" or "--name", without dashes
	// The limits of the unit as systemd prints them; "" if unset.
	MemoryMax string
	CPUQuota  string // CPU time per second: "2s" is two CPUs
	// What systemd reserves for the unit: bytes of memory, and shares of processors and disks; "" if
	// unset.
	MemoryMin string
	CPUWeight string
	IOWeight  string
}

//go:embed unit_process.sh
var processFunctions Script

// ProcessScript returns a script for Query.Script. ReadProcesses parses its output.
func ProcessScript(units ...string) Script {
	return processFunctions + "processes " + Words(units...) + "\n"
}

// ReadProcesses parses the lines of ProcessScript, by unit. Other lines are ignored.
func ReadProcesses(output string) map[string]Process {
	processes := map[string]Process{}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 6 || fields[0] != "process" {
			continue
		}
		p := Process{MemoryMax: parseLimit(fields[2]), CPUQuota: parseLimit(fields[3])}
		p.Flags, p.Running = parseFlags(fields[4])
		p.parseReservations(fields[5])
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

// reservationPattern matches a number of bytes, or a weight.
var reservationPattern = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// parseReservations parses the properties of a unit, "NAME=VALUE NAME=VALUE ". MemoryLow= protects
// memory as well, as long as there is some elsewhere.
func (p *Process) parseReservations(text string) {
	values := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		if reservationPattern.MatchString(value) {
			values[name] = value
		}
	}
	p.MemoryMin = cmp.Or(values["MemoryMin"], values["MemoryLow"])
	p.CPUWeight, p.IOWeight = values["CPUWeight"], values["IOWeight"]
}
