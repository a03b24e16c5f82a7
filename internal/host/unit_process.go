package host

import (
	_ "embed"
	"encoding/base64"
	"strings"
)

// Process is the main process of a unit that runs.
type Process struct {
	Running bool
	Flags   map[string]string // of its command line, "--name=value" or "--name", without dashes
	// The limits of the unit as systemd prints them; "" for none.
	MemoryMax string
	CPUQuota  string // processor time a second: "2s" are two processors
}

//go:embed unit_process.sh
var processFunctions Script

// ProcessScript is for a Query's Script: it prints what ReadProcesses reads.
func ProcessScript(units ...string) Script {
	return processFunctions + "processes " + Words(units...) + "\n"
}

// ReadProcesses reads the lines of ProcessScript among others, by unit.
func ReadProcesses(output string) map[string]Process {
	processes := map[string]Process{}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 5 || fields[0] != "process" {
			continue
		}
		p := Process{MemoryMax: parseLimit(fields[2]), CPUQuota: parseLimit(fields[3])}
		p.Flags, p.Running = parseFlags(fields[4])
		processes[fields[1]] = p
	}
	return processes
}

// parseFlags reads a command line in base64; running is false where there is none. A
// flag of another form than the programs have is left out.
func parseFlags(encoded string) (flags map[string]string, running bool) {
	flags = map[string]string{}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(text) == 0 {
		return flags, false
	}
	for _, word := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if flagForm.MatchString(name) && len(value) <= maxFlagLength && len(flags) < maxFlags {
			flags[name] = value
		}
	}
	return flags, true
}

// parseLimit reads a limit as systemd prints it, "" for none.
func parseLimit(text string) string {
	if text == "infinity" || !limitForm.MatchString(text) {
		return ""
	}
	return text
}
