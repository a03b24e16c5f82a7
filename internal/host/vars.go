package host

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Script is commands for sh. It is a type of its own so that nothing else gets
// into one: a constant or an embedded file is a Script as it is, two make another
// one, and what varies is quoted by Assignments or Words. Outside this package no
// string is ever converted (internal/docs holds that).
type Script string

// varName is what a variable of a script may be called. Names in capitals are
// left to the environment: PATH, IFS and their like cannot be set by a value.
var varName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Assignments sets variables for sh, a line each, in the order of their names.
// It is the one way by which a value gets into a script: every value is quoted
// here, so that what it holds is never read as code. Command, Change and Query
// call it for their Vars; it is exported for scripts that are files. The names are
// those that checkVars takes, and a NUL character, which no shell can hold, is
// left out.
func Assignments(vars map[string]string) Script {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !varName.MatchString(name) {
			panic("host: not the name of a script's variable: " + strconv.Quote(name))
		}
		b.WriteString(name + "=" + shellescape.Quote(strings.ReplaceAll(vars[name], "\x00", "")) + "\n")
	}
	return Script(b.String())
}

// Words are words for sh, quoted by the same rule: a list to go through, say.
func Words(words ...string) Script { return Script(shellescape.QuoteCommand(words)) }

func checkVars(vars map[string]string) error {
	for name, value := range vars {
		if !varName.MatchString(name) {
			return fmt.Errorf("%q is not the name of a script's variable: want small letters, digits and underscores", name)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("the value of the script's variable %s holds a NUL character", name)
		}
	}
	return nil
}

// withVars puts the assignments before the script; nothing before none.
func withVars(script Script, vars map[string]string) (Script, error) {
	if err := checkVars(vars); err != nil || script == "" {
		return "", err
	}
	return Assignments(vars) + script, nil
}
