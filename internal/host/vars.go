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

// varName is what a variable of a script may be called. Names in capitals are
// left to the environment: PATH, IFS and their like cannot be set by a value.
var varName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Assignments sets variables for sh, a line each, in the order of their names.
// It is the one way by which a value gets into a script: every value is quoted
// here, so that what it holds is never read as code. Command, Change and Query
// call it for their Vars; it is exported for scripts that are files. The names are
// those that checkVars takes, and a NUL character, which no shell can hold, is
// left out.
func Assignments(vars map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !varName.MatchString(name) {
			panic("host: not the name of a script's variable: " + strconv.Quote(name))
		}
		b.WriteString(name + "=" + shellescape.Quote(strings.ReplaceAll(vars[name], "\x00", "")) + "\n")
	}
	return b.String()
}

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
func withVars(script string, vars map[string]string) (string, error) {
	if err := checkVars(vars); err != nil || script == "" {
		return "", err
	}
	return Assignments(vars) + script, nil
}
