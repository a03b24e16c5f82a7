package systemd

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// variableName is a name that systemd takes in Environment= (systemd.exec(5)).
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

// environmentLine is the key of a unit's lines that set variables.
const environmentLine = "Environment="

// memoryLimitVariable is set by Limits, unless the environment has it.
const memoryLimitVariable = "GOMEMLIMIT"

// ValidateEnvironment returns why variables cannot be set in a unit.
func ValidateEnvironment(variables map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q is no name of an environment variable: letters, digits and _, not a digit first", name)
		}
		if strings.ContainsFunc(variables[name], unicode.IsControl) {
			return fmt.Errorf("the value of %s contains a line break or another control character", name)
		}
	}
	return nil
}

// ProxyWithoutExceptions returns the variable that makes a program written in Go send its requests to all other
// machines through a proxy, because no variable names exceptions, or "" (golang.org/x/net/http/httpproxy,
// FromEnvironment).
func ProxyWithoutExceptions(variables map[string]string) string {
	if variables["NO_PROXY"] != "" || variables["no_proxy"] != "" {
		return ""
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if variables[name] != "" {
			return name
		}
	}
	return ""
}

// EnvironmentLines returns the settings for the [Service] section of a unit, one for each variable,
// sorted. They go behind those of Limits, so that GOMEMLIMIT of the user wins.
func EnvironmentLines(variables map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		// Specifiers are expanded in Environment=, and $ is not.
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(variables[name])
		b.WriteString(environmentLine + `"` + name + "=" + value + "\"\n")
	}
	return b.String()
}

// EnvironmentIn parses what EnvironmentLines wrote into a unit, and returns nil if there is none.
// GOMEMLIMIT of Limits, which has no quotation marks, is not part of it.
func EnvironmentIn(unit string) map[string]string {
	var variables map[string]string
	for line := range strings.Lines(unit) {
		quoted, ok := strings.CutPrefix(strings.TrimSpace(line), environmentLine+`"`)
		text, closed := strings.CutSuffix(quoted, `"`)
		name, value, assigned := strings.Cut(strings.NewReplacer(`\\`, `\`, `\"`, `"`, "%%", "%").Replace(text), "=")
		if !ok || !closed || !assigned || ValidateEnvironment(map[string]string{name: value}) != nil {
			continue
		}
		if variables == nil {
			variables = map[string]string{}
		}
		variables[name] = value
	}
	return variables
}
