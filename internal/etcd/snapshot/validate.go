package snapshot

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

// shorthands of systemd's calendar expressions (systemd.time(7)).
var shorthands = []string{
	"minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly",
	"annually",
}

var (
	calendarWeekdays = regexp.MustCompile(
		`(?i)^(mon|tue|wed|thu|fri|sat|sun)[a-z]*((\.\.|-|,)(mon|tue|wed|thu|fri|sat|sun)[a-z]*)*$`)
	calendarDate = regexp.MustCompile(`^[0-9*,./]+([-~][0-9*,./]+){1,2}$`)
	calendarTime = regexp.MustCompile(`^[0-9*,./]+(:[0-9*,./]+){1,2}$`)
	calendarZone = regexp.MustCompile(`^(UTC|[A-Z][A-Za-z]*/[A-Za-z0-9/_+-]+)$`)
)

// ValidateSchedule accepts what looks like a calendar expression of systemd: a shorthand,
// or weekdays, a date and a time, each of which is optional, followed by an optional time
// zone. It does not check the ranges of the numbers: the machine does ("systemd-analyze
// calendar"), before the first change.
func ValidateSchedule(schedule string) error {
	words := strings.Split(schedule, " ")
	if len(words) > 1 && calendarZone.MatchString(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 1 && slices.Contains(shorthands, words[0]) {
		return nil
	}
	for _, part := range []*regexp.Regexp{calendarWeekdays, calendarDate, calendarTime} {
		if len(words) > 0 && part.MatchString(words[0]) {
			words = words[1:]
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("schedule %q is not a systemd calendar expression: use a shorthand such "+
			"as \"hourly\" or \"daily\", or weekdays, date and time separated by one space, such as \"*-*-* 02:30:00\" or "+
			"\"Mon..Fri 02:30 Europe/Berlin\"", schedule)
	}
	return nil
}

// longestUpload is in bytes: a longer script should be a program of its own.
const longestUpload = 16 << 10

// ValidateUpload accepts commands that can be stored in a file.
func ValidateUpload(commands string) error {
	switch {
	case strings.TrimSpace(commands) == "":
		return fmt.Errorf("the upload command is empty: omit the argument to keep the snapshots on the machine")
	case strings.ContainsRune(commands, 0):
		return fmt.Errorf("the upload command contains a NUL character")
	case len(commands) > longestUpload:
		return fmt.Errorf("the upload command has %d bytes, at most %d are allowed: put it into a program on the machines",
			len(commands), longestUpload)
	}
	return nil
}

// ValidateEnvironmentFile accepts an absolute path that needs no quoting in a unit.
func ValidateEnvironmentFile(file string) error {
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return fmt.Errorf("environment file %q is not a clean absolute path", file)
	case !layout.PlainPath.MatchString(file):
		return fmt.Errorf("environment file %q has characters other than letters, digits and . _ - /", file)
	}
	return nil
}
