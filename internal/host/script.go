package host

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Script is commands for sh. It is a type of its own so that no data gets into one:
// constants and embedded files are Scripts, two Scripts make another one, and values
// are quoted by Assignments or Words. No other package converts a string to it
// (a test in internal/docs enforces that).
type Script string

// varName is what a variable of a script may be called. Names in capitals are
// left to the environment: PATH, IFS and their like cannot be set by a value.
var varName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Assignments sets variables for sh, a line each, in the order of their names.
// It is the one way by which a value gets into a script: every value is quoted
// here, so that what it holds is never read as code. Command, Change and Query
// call it for their Vars; it is exported for scripts that are files. The names are
// those that checkVars accepts. A NUL character, which no shell can hold, is left
// out.
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

func firstLine(script Script) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(script)), "\n")
	if len(line) > 60 {
		return line[:60] + "…"
	}
	return line
}

// withoutComments drops the lines of a script that are comments alone: it travels
// each time, and shows in the machine's process list.
func withoutComments(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			b.WriteString(line)
		}
	}
	return b.String()
}

// newToken is an unguessable name for one remote command and its temporary files.
func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Discard is a line of a Script that removes files together with what an Apply
// of them left beside them when the machine lost its power: nothing tidies up
// then, and part of a private key may be in it. What is not there is no error.
func Discard(paths ...string) Script {
	var words []string
	for _, p := range paths {
		words = append(words, shellescape.Quote(p), shellescape.Quote(path.Dir(p)+"/."+path.Base(p)+".kube-")+"*")
	}
	return Script("rm -f -- " + strings.Join(words, " ") + "\n")
}
