package systemd

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits restrict the resources that a unit may use (systemd.resource-control(5)), and reserve some for
// it. "" means no limit.
type Limits struct {
	MemoryHigh string // bytes, with K, M, G or T; above it the unit is throttled and its memory reclaimed
	MemoryMax  string // above it the unit is killed and restarted
	CPUQuota   string // percent of one CPU: "200%" is two CPUs

	// What the unit gets although others on the machine want more:
	MemoryMin string // bytes, with K, M, G or T, or percent of the machine's memory: not reclaimed
	CPUWeight int    // 1 to 10000, while processors are busy; 0 is not set: 100, and no slice of its own
	IOWeight  int    // the same for disks
}

// goShare is the fraction of the lower memory limit that is set as GOMEMLIMIT. Without it,
// garbage that is not collected yet can get a limited unit killed. The rest is for memory that
// Go's collector does not count, such as kernel stacks and mapped files.
const goShare = 0.9

var (
	memorySize = regexp.MustCompile(`^([1-9][0-9]{0,15}|[1-9][0-9]{0,5}[KMGT])$`)
	cpuShare   = regexp.MustCompile(`^[1-9][0-9]{0,5}%$`)
)

// ValidateMemory returns why text is not a valid memory limit.
func ValidateMemory(text string) error {
	if !memorySize.MatchString(text) {
		return fmt.Errorf("malformed amount of memory %q: bytes, or with K, M, G or T, such as 4G", text)
	}
	return nil
}

// ValidateCPU returns why text is not a valid CPU limit.
func ValidateCPU(text string) error {
	if !cpuShare.MatchString(text) {
		return fmt.Errorf("malformed share of processors %q: percent of one, such as 200%% for two", text)
	}
	return nil
}

// Validate returns why the limits are invalid or contradict each other.
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
	return l.validateReservations()
}

// Lines returns the settings for the [Service] section of the named unit. It returns "" without limits.
func (l Limits) Lines(unit string) string {
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
	b.WriteString(l.reservationLines(unit))
	return b.String()
}

// LimitsIn parses what Lines wrote into a unit. Values that Validate would reject, such as
// manual edits, are dropped.
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
		default:
			l.readReservation(name, value)
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

// bytesOf parses an amount of memory and returns 0 if it is invalid. The suffixes are powers of
// 1024, as in systemd.
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
