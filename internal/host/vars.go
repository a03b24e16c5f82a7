package host

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// varName is what a variable of a script may be called. Names in capitals are
// left to the environment: PATH, IFS and their like cannot be set by a value.
var varName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Assignments sets variables for sh, a line each, in the order of their names.
// It is the one way by which a value gets into a script: every value is quoted
// here, so that what it holds is never read as code. Command, Change and Query
// call it for their Vars; it is exported for scripts that are files.
func Assignments(vars map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !varName.MatchString(name) {
			return "", fmt.Errorf("%q is not the name of a script's variable: want small letters, digits and underscores", name)
		}
		if strings.ContainsRune(vars[name], 0) {
			return "", fmt.Errorf("the value of the script's variable %s holds a NUL character", name)
		}
		b.WriteString(name + "=" + shellescape.Quote(vars[name]) + "\n")
	}
	return b.String(), nil
}

// withVars puts the assignments before the script; nothing before none.
func withVars(script string, vars map[string]string) (string, error) {
	values, err := Assignments(vars)
	if err != nil || script == "" {
		return "", err
	}
	return values + script, nil
}
