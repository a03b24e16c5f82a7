package host

import (
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Script contains commands for sh. It is a separate type so that no data gets into a script:
// constants and embedded files are Scripts, two Scripts can be concatenated, and values are
// quoted by Assignments or Words. No other package converts a string to it (a test in
// internal/docs enforces that).
type Script string

// varName is a valid name of a script variable. Uppercase names are reserved for the
// environment: PATH, IFS and similar variables cannot be set by a value.
var varName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Assignments sets variables for sh, one per line, sorted by name. This is the only way to pass
// a value to a script: every value is quoted here, so that its content is never interpreted as
// code. Command, Change and Query call it for their Vars; it is exported for scripts that are
// files. Names must be accepted by checkVars. NUL characters are dropped, because shell
// variables cannot contain them.
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

// Words returns quoted words for sh, by the same rule, for example a list to iterate over.
func Words(words ...string) Script { return Script(shellescape.QuoteCommand(words)) }

// Chmod returns lines of a Script that give a file its mode, and write that to the disk.
func Chmod(path string, mode fs.FileMode) Script {
	return "chmod " + Words(fmt.Sprintf("%04o", mode.Perm()), path) + "\n" + Flush(path)
}

func checkVars(vars map[string]string) error {
	for name, value := range vars {
		if !varName.MatchString(name) {
			return fmt.Errorf("%q is not the name of a script's variable: want small letters, digits and underscores", name)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("the value of the script's variable %s contains a NUL character", name)
		}
	}
	return nil
}

// withVars puts the assignments before the script.
func withVars(script Script, vars map[string]string) (Script, error) {
	if err := checkVars(vars); err != nil || script == "" {
		return "", err
	}
	return Assignments(vars) + script, nil
}

// firstLine returns the first line of a script that is no comment, shortened.
func firstLine(script Script) string {
	for line := range strings.Lines(string(script)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case len(line) > 60:
			return line[:60] + "…"
		default:
			return line
		}
	}
	return ""
}

// summary describes the command for hooks and messages.
func (c Command) summary() string {
	if c.What != "" {
		return c.What
	}
	return "run " + firstLine(c.Script)
}

// withoutComments removes the comment lines of a script, which is sent each time and appears in
// the machine's process list.
func withoutComments(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			b.WriteString(line)
		}
	}
	return b.String()
}

// WithoutComments returns the script without its comment lines. Those of Observe and Apply are removed anyway.
func (s Script) WithoutComments() Script { return Script(withoutComments(string(s))) }

// newToken returns an unguessable name for one remote command and its temporary files.
func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

//go:embed flush.sh
var flushFunction string

// FlushFunction returns the shell function flush, which Flush calls, for embedded scripts. See
// flush.sh.
func FlushFunction() Script { return Script(withoutComments(flushFunction)) }

// Flush returns a line of a Script that writes changes to the disk: they survive a power cut
// from then on. It needs the paths of changed files, and of the directories in which names were
// created, renamed or removed. Apply flushes the change itself, so only its Script and the
// scripts of Run need Flush.
func Flush(paths ...string) Script {
	return FlushFunction() + "flush " + Words(paths...) + "\n"
}

// Discard returns a line of a Script that removes files together with the temporary files that
// an Apply of them left behind when the machine lost power: nothing cleans up then, and they
// may contain part of a private key. A missing file is not an error.
func Discard(paths ...string) Script {
	var words []string
	for _, p := range paths {
		words = append(words, shellescape.Quote(p), shellescape.Quote(path.Dir(p)+"/."+path.Base(p)+".kube-")+"*")
	}
	return Script("rm -f -- " + strings.Join(words, " ") + "\n")
}
