package host

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Values from a machine are checked against these forms where they are parsed. A value in
// another form is an error, or is skipped if the rule says so.
var (
	machineIDPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)
	bootIDPattern    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	hostnamePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	osPattern        = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,64}( [A-Za-z0-9._+-]{1,64}){0,15}$`)
	kernelPattern    = regexp.MustCompile(`^[a-z0-9_]{1,16}$`)
	ownerPattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)
	digestPattern    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	statePattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	processPattern   = regexp.MustCompile(`^[A-Za-z0-9._:/@+ -]{1,64}$`)
	programPattern   = regexp.MustCompile(`^(/[A-Za-z0-9._+-]+){1,16}$`)
	systemdPattern   = regexp.MustCompile(`^[0-9]{1,5}`)
	flagPattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	limitPattern     = regexp.MustCompile(`^[A-Za-z0-9.% -]{0,64}$`)
)

const (
	unnamed       = "?" // an owner or process whose name has an unknown form; it does not belong to the provider
	maxEntries    = 10_000
	maxEntryName  = 255     // NAME_MAX
	maxProcessID  = 1 << 22 // PID_MAX_LIMIT
	maxRestarts   = math.MaxInt32
	maxFlags      = 1000
	maxFlagLength = 8 << 10
)

// matching returns text if it has the form.
func matching(form *regexp.Regexp, what, text string) (string, error) {
	if form.MatchString(text) {
		return text, nil
	}
	return "", fmt.Errorf("%s reads %s", what, problem.Quote(text))
}

// matchingOrEmpty is matching for a value that may be missing; none are the spellings of "no
// value".
func matchingOrEmpty(form *regexp.Regexp, what, text string, none ...string) (string, error) {
	for _, spelling := range append(none, "") {
		if text == spelling {
			return "", nil
		}
	}
	return matching(form, what, text)
}

// matchingOrUnnamed returns text, or unnamed if it has another form.
func matchingOrUnnamed(form *regexp.Regexp, text string) string {
	if form.MatchString(text) {
		return text
	}
	return unnamed
}

// digestOrEmpty returns a SHA-256, or "" if text is not one. "" differs from every digest.
func digestOrEmpty(text string) string {
	if digestPattern.MatchString(text) {
		return text
	}
	return ""
}

// oneLine returns text of an SSH server as one line for a message.
func oneLine(text string) string {
	const most = 300
	text = problem.Line(text)
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// parseCount parses a number from 0 to most.
func parseCount(what, text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s reads %s", what, problem.Quote(text))
	}
	return n, nil
}

// parseBase64 decodes base64.
func parseBase64(what, text string) (string, error) {
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return string(content), nil
}

// parseClock parses seconds with an optional fraction (date +%s.%N).
func parseClock(text string) (time.Time, error) {
	const endOfTime = 253402300799 // in the year 9999; later times cannot be formatted
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := parseCount("the machine's clock", whole, endOfTime)
	if err != nil {
		return time.Time{}, err
	}
	nanoseconds, err := parseCount("fraction", fraction, 999_999_999)
	if err != nil || len(fraction) != 9 {
		nanoseconds = 0 // a date(1) without %N
	}
	return time.Unix(seconds, nanoseconds), nil
}

// goArchitecture maps the output of uname -m to GOARCH.
func goArchitecture(machine string) (string, error) {
	switch machine {
	case "x86_64":
		return "amd64", nil
	case "aarch64":
		return "arm64", nil
	case "armv7l", "armv6l":
		return "arm", nil
	case "i386", "i686":
		return "386", nil
	}
	return matchingOrEmpty(kernelPattern, "the machine's architecture",
		machine) // ppc64le, s390x and riscv64 are the same in Go
}

// parseOSRelease parses ID and ID_LIKE, quoted or not (os-release(5)).
func parseOSRelease(lines []string) (id, like string, err error) {
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		value = strings.Trim(value, `"'`)
		var problems [2]error
		switch key {
		case "ID":
			id, problems[0] = matchingOrEmpty(osPattern, "ID of /etc/os-release", value)
		case "ID_LIKE":
			like, problems[1] = matchingOrEmpty(osPattern, "ID_LIKE of /etc/os-release", value)
		}
		if err = errors.Join(problems[:]...); err != nil {
			return "", "", err
		}
	}
	return id, like, nil
}
