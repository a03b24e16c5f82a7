package host

import (
	"slices"
	"testing"
)

// FuzzParseApplied verifies that a machine cannot report paths that it was not given.
func FuzzParseApplied(f *testing.F) {
	f.Add("/a\n/b\n--\noutput\n")
	f.Add("/a\n/etc/shadow\n--\n")
	f.Add("/a\n/a")
	f.Fuzz(func(t *testing.T, stdout string) {
		paths := []string{"/a", "/b"}
		applied, err := parseApplied(stdout, paths)
		if err != nil {
			return
		}
		for _, path := range applied.Changed {
			if !slices.Contains(paths, path) {
				t.Errorf("%q reports %q", stdout, path)
			}
		}
	})
}

// FuzzReadProcesses verifies that flags have names of flags, and a limited size.
func FuzzReadProcesses(f *testing.F) {
	f.Add("process\tetcd.service\t1024\tinfinity\tL2V0Y2QALS1uYW1lPWNwMQA=\tunit\ncgroups\t2\nweighs\tyes\n" +
		"reserved\tetcd.service\tetcd.service\tMemoryMin=1 CPUWeight=200\nreserved\tetcd.service\tetcd.slice\tMemoryMin=1\n")
	f.Add("process\tx\t$(id)\t-1\tAA==\tunit\nreserved\tx\ty\tIOWeight=99999999999999999999\n" +
		"reserved\tx\tz\tCPUWeight=$(id)\n")
	f.Add("process\tx\t\t\tAA==\tcontainer\ngroup\tx\tmemory.max\t5\ngroup\tx\tcpu.shares\t9\ngroup\tx\tcpu.max\t9 0\n")
	f.Fuzz(func(t *testing.T, output string) {
		for unit, p := range ReadProcesses(output) {
			if len(p.Flags) > maxFlags {
				t.Errorf("%s has %d flags", unit, len(p.Flags))
			}
			for _, value := range []string{p.MemoryMin, p.CPUWeight, p.IOWeight} {
				if value != "" && !reservationPattern.MatchString(value) {
					t.Errorf("%s reserves %q", unit, value)
				}
			}
			for name, value := range p.Flags {
				if !flagPattern.MatchString(name) || len(value) > maxFlagLength {
					t.Errorf("%s has flag %q with %d bytes", unit, name, len(value))
				}
			}
		}
	})
}
