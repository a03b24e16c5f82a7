package systemd

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MaxWeight is the largest weight that systemd accepts.
const MaxWeight = 10000

var memoryPercent = regexp.MustCompile(`^[1-9][0-9]?%$`)

// ValidateReservation returns why text is not a valid amount of reserved memory.
func ValidateReservation(text string) error {
	if !memorySize.MatchString(text) && !memoryPercent.MatchString(text) {
		return fmt.Errorf("malformed amount of memory %q: bytes, or with K, M, G or T, such as 4G, or percent of the "+
			"machine's memory, such as 10%%", text)
	}
	return nil
}

// ValidateWeight returns why a number is not a weight.
func ValidateWeight(weight int) error {
	if weight < 1 || weight > MaxWeight {
		return fmt.Errorf("malformed weight %d: 1 to %d, and 100 is that of every other slice", weight, MaxWeight)
	}
	return nil
}

// validateReservations returns why reservations are invalid, or contradict the limits.
func (l Limits) validateReservations() error {
	if l.MemoryMin != "" {
		if err := ValidateReservation(l.MemoryMin); err != nil {
			return err
		}
	}
	for _, weight := range []int{l.CPUWeight, l.IOWeight} {
		if weight == 0 {
			continue
		}
		if err := ValidateWeight(weight); err != nil {
			return err
		}
	}
	if limit := l.lowerMemory(); limit > 0 && bytesOf(l.MemoryMin) > limit {
		return errors.New("more memory is reserved (" + l.MemoryMin + ") than the unit may use")
	}
	return nil
}

// Slice returns the name of the slice of a unit with reservations. It has no dash, because a dash is a
// slice within another one.
func Slice(unit string) string {
	return strings.ReplaceAll(strings.TrimSuffix(unit, ".service"), "-", "") + ".slice"
}

// reservationLines returns the settings of the reservations for the [Service] section of a unit.
//
// A reservation counts among the units of one slice only, and memory only as far as every slice above has
// reserved it. In system.slice, a unit would be one of many there, and its memory would not be reserved at
// all. So the unit is in a slice of its own, at the top, that has the reservations. The slice has no file: the unit
// sets its properties when it starts, until the machine's next start, so that a rollback of the unit is one
// of its reservations, and that nothing remains without the unit. The minus sign lets the unit start even
// if systemd does not take them.
func (l Limits) reservationLines(unit string) string {
	var properties []string
	if l.MemoryMin != "" {
		properties = append(properties, "MemoryMin="+l.MemoryMin)
	}
	if l.CPUWeight != 0 {
		properties = append(properties, "CPUWeight="+strconv.Itoa(l.CPUWeight))
	}
	if l.IOWeight != 0 {
		properties = append(properties, "IOWeight="+strconv.Itoa(l.IOWeight))
	}
	if len(properties) == 0 {
		return ""
	}
	set := strings.ReplaceAll(strings.Join(properties, " "), "%", "%%")
	return strings.Join(properties, "\n") + "\nSlice=" + Slice(unit) +
		"\nExecStartPre=+-/usr/bin/env systemctl --runtime set-property " + Slice(unit) + " " + set + "\n"
}

// readReservation takes one setting of a unit. Values that validate would reject are dropped.
func (l *Limits) readReservation(name, value string) {
	number, err := strconv.Atoi(value)
	isWeight := err == nil && ValidateWeight(number) == nil
	switch {
	case name == "MemoryMin" && ValidateReservation(value) == nil:
		l.MemoryMin = value
	case name == "CPUWeight" && isWeight:
		l.CPUWeight = number
	case name == "IOWeight" && isWeight:
		l.IOWeight = number
	}
}
