package systemd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Command is the command of a unit's ExecStart=. A flag is written as --name=value and parsed
// with any number of dashes. A flag without a value is parsed as "". A flag that repeats has
// one value a line, in their order: no value on a command line contains a line break.
type Command struct {
	Program string
	Flags   map[string]string // by name, without dashes
}

const execStart = "ExecStart="

// ExecStart renders the ExecStart= line. Each flag is on a continuation line of its own,
// sorted, so that a diff shows single flags.
func (c Command) ExecStart() string {
	words := []string{quote(c.Program)}
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		for _, value := range strings.Split(c.Flags[name], "\n") {
			words = append(words, quote("--"+name+"="+value))
		}
	}
	return execStart + strings.Join(words, " \\\n  ")
}

// quote follows systemd.service(5), COMMAND LINES: % starts a specifier and $ a variable; both
// are doubled. A word that systemd would split or unquote is put into double quotes with
// C-style escapes.
func quote(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if word != "" && !strings.ContainsAny(word, " \t\"'\\;") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

var errNoExecStart = errors.New("no ExecStart= line")

// ParseUnit returns the command of a unit file, and the rest of the file without it. It accepts
// what ExecStart writes, and single quotes, which a person might use. It returns an error if
// the file has no command that can be parsed.
func ParseUnit(unit string) (c Command, rest string, err error) {
	var others []string
	seen := false
	for line := range strings.Lines(strings.ReplaceAll(unit, "\\\n", " ")) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), execStart)
		if !ok || command == "" || seen {
			others = append(others, strings.TrimRight(line, "\n"))
			continue
		}
		seen = true
		if c, err = parseCommand(command); err != nil {
			return Command{}, "", fmt.Errorf("read %s: %w", execStart, err)
		}
	}
	if !seen {
		return Command{}, "", errNoExecStart
	}
	return c, strings.Join(others, "\n"), nil
}

func parseCommand(command string) (Command, error) {
	words, err := split(command)
	if err != nil {
		return Command{}, err
	}
	c := Command{Program: words[0], Flags: map[string]string{}}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if before, repeats := c.Flags[name]; repeats {
			value = before + "\n" + value
		}
		c.Flags[name] = value
	}
	return c, nil
}

func split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, mark := false, rune(0)
	characters := []rune(command)
	for i := 0; i < len(characters); i++ {
		c := characters[i]
		switch {
		case mark == 0 && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
			continue
		case mark == 0 && (c == '"' || c == '\''):
			mark = c
		case c == mark && mark != 0:
			mark = 0
		case c == '\\' && i+1 < len(characters):
			i++
			word.WriteRune(characters[i])
		case (c == '%' || c == '$') && i+1 < len(characters) && characters[i+1] == c:
			i++
			word.WriteRune(c)
		default:
			word.WriteRune(c)
		}
		inWord = true
	}
	if mark != 0 {
		return nil, errors.New("a quotation mark is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}
