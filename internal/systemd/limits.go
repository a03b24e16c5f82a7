package systemd

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits bound what a unit may take of its machine (systemd.resource-control(5)).
// Each is "" for none.
type Limits struct {
	MemoryHigh string // bytes, with K, M, G or T: above it the unit is slowed and its memory reclaimed
	MemoryMax  string // above it the unit is killed, and started again
	CPUQuota   string // percent of one processor: "200%" is two
}

// goShare is the part of the lower memory limit that Go's collector keeps to
// (GOMEMLIMIT): without it a program of a limited unit is killed for garbage. The
// rest is for what the collector does not count, such as stacks of the kernel
// and mapped files.
const goShare = 0.9

var (
	memorySize = regexp.MustCompile(`^([1-9][0-9]{0,15}|[1-9][0-9]{0,5}[KMGT])$`)
	cpuShare   = regexp.MustCompile(`^[1-9][0-9]{0,5}%$`)
)

// ValidateMemory says why text cannot limit memory.
func ValidateMemory(text string) error {
	if !memorySize.MatchString(text) {
		return fmt.Errorf("malformed amount of memory %q: bytes, or with K, M, G or T, such as 4G", text)
	}
	return nil
}

// ValidateCPU says why text cannot limit processor time.
func ValidateCPU(text string) error {
	if !cpuShare.MatchString(text) {
		return fmt.Errorf("malformed share of processors %q: percent of one, such as 200%% for two", text)
	}
	return nil
}

// Validate says why the limits are none, or contradict each other.
func (l Limits) Validate() error {
	for _, memory := range []string{l.MemoryHigh, l.MemoryMax} {
		if memory == "" {
			continue
		}
		if err := ValidateMemory(memory); err != nil {
			return err
		}
	}
	if l.CPUQuota != "" {
		if err := ValidateCPU(l.CPUQuota); err != nil {
			return err
		}
	}
	if l.MemoryHigh != "" && l.MemoryMax != "" && bytesOf(l.MemoryHigh) > bytesOf(l.MemoryMax) {
		return fmt.Errorf("the unit is killed at %s of memory, before it is slowed at %s", l.MemoryMax, l.MemoryHigh)
	}
	return nil
}

// Lines are the settings for the [Service] section of a unit; none without limits.
func (l Limits) Lines() string {
	var b strings.Builder
	set := func(name, value string) {
		if value != "" {
			b.WriteString(name + "=" + value + "\n")
		}
	}
	set("MemoryHigh", l.MemoryHigh)
	set("MemoryMax", l.MemoryMax)
	set("CPUQuota", l.CPUQuota)
	if limit := l.lowerMemory(); limit > 0 {
		set("Environment", "GOMEMLIMIT="+strconv.FormatInt(int64(float64(limit)*goShare), 10))
	}
	return b.String()
}

// LimitsIn reads back what Lines has written into a unit. What a person has put
// there and Validate would refuse is none.
func LimitsIn(unit string) Limits {
	var l Limits
	for line := range strings.Lines(unit) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "MemoryHigh" && ValidateMemory(value) == nil:
			l.MemoryHigh = value
		case name == "MemoryMax" && ValidateMemory(value) == nil:
			l.MemoryMax = value
		case name == "CPUQuota" && ValidateCPU(value) == nil:
			l.CPUQuota = value
		}
	}
	return l
}

func (l Limits) lowerMemory() int64 {
	high, most := bytesOf(l.MemoryHigh), bytesOf(l.MemoryMax)
	if high == 0 || most > 0 && most < high {
		return most
	}
	return high
}

// bytesOf reads an amount of memory; what is none is 0. The suffixes are powers
// of 1024, as systemd has them.
func bytesOf(text string) int64 {
	if ValidateMemory(text) != nil {
		return 0
	}
	unit := strings.TrimLeft(text, "0123456789")
	n, err := strconv.ParseInt(strings.TrimSuffix(text, unit), 10, 64)
	if err != nil {
		return 0
	}
	return n << (10 * strings.Index(" KMGT", unit))
}
