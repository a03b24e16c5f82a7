package host

import (
	"regexp"
	"strconv"
	"strings"
)

// groups are the values of the cgroups of a container and of its Pod.
type groups struct {
	memory, cpu     bool // its group of this controller was read
	memoryMax       int64
	quota           float64 // of processors; 0: none
	memoryMin       int64   // the least of all groups
	reserves, least bool    // memoryMin was read; a group has only the least share of processors
}

// The values of cgroups v1 and v2 that mean nothing: a limit of memory that no machine reaches, and the share of
// processors of a container without a request (the kubelet's MinShares, and its weight in cgroup v2).
const (
	unlimitedMemory = 1 << 60
	leastShares     = 2
	leastWeight     = 1
)

var (
	groupNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)
	groupTime   = regexp.MustCompile(`^[1-9][0-9]{0,14}$`) // microseconds
)

// mostGroups is how many containers are read.
const mostGroups = 16

// readGroups parses the lines of the function containerized, by name. Values that the kernel does not write are
// skipped.
func readGroups(output string) map[string]*groups {
	all := map[string]*groups{}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 || fields[0] != "group" {
			continue
		}
		g := all[fields[1]]
		if g == nil {
			if len(all) == mostGroups {
				continue
			}
			g = &groups{}
			all[fields[1]] = g
		}
		g.read(fields[2], strings.Fields(fields[3]))
	}
	return all
}

// read takes a value of a group.
func (g *groups) read(file string, words []string) {
	if len(words) == 0 {
		return
	}
	number, valid := int64(0), groupNumber.MatchString(words[0])
	if valid {
		parsed, err := strconv.ParseUint(words[0], 10, 64)
		number, valid = int64(min(parsed, 1<<62)), err == nil
	}
	switch file {
	case "memory.max", "memory.limit_in_bytes":
		g.memory = g.memory || valid || words[0] == "max"
		if valid && number < unlimitedMemory {
			if g.memoryMax == 0 {
				g.memoryMax = max(1, number)
			}
			g.memoryMax = min(g.memoryMax, max(1, number))
		}
	case "memory.min":
		if valid && !g.reserves {
			g.reserves, g.memoryMin = true, number
		} else if valid {
			g.memoryMin = min(g.memoryMin, number)
		}
	case "cpu.max": // "QUOTA PERIOD" in microseconds; -1 in cgroup v1
		g.readQuota(words)
	case "cpu.weight":
		g.cpu, g.least = g.cpu || valid, g.least || valid && number <= leastWeight
	case "cpu.shares":
		g.cpu, g.least = g.cpu || valid, g.least || valid && number <= leastShares
	}
}

func (g *groups) readQuota(words []string) {
	if len(words) != 2 || !groupTime.MatchString(words[0]) || !groupTime.MatchString(words[1]) {
		return
	}
	quota, _ := strconv.ParseFloat(words[0], 64) // fifteen digits fit
	period, _ := strconv.ParseFloat(words[1], 64)
	if g.quota == 0 {
		g.quota = quota / period
	}
	g.quota = min(g.quota, quota/period)
}

// describe sets the limits and reservations of a container.
func (g *groups) describe(p *Process) {
	if g == nil || !g.memory || !g.cpu {
		p.Unseen = "the cgroup of its container does not show on the machine"
		return
	}
	if g.memoryMax > 0 {
		p.MemoryMax = strconv.FormatInt(g.memoryMax, 10)
	}
	if g.quota > 0 {
		p.CPUQuota = strconv.FormatFloat(g.quota, 'f', -1, 64) + "s"
	}
	if g.memoryMin > 0 {
		p.MemoryMin = strconv.FormatInt(g.memoryMin, 10)
	}
	p.CPURequest = !g.least
}
