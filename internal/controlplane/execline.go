package controlplane

import (
	"errors"
	"fmt"
	"strings"
)

// execLine writes a command for ExecStart=, one argument a line, so that a
// person can read it and a diff shows one flag.
func execLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " \\\n  ")
}

// quote follows systemd.service(5), COMMAND LINES: % starts a specifier, $ a
// variable; both are doubled. What systemd would split or unquote is put into
// double quotes with C-style escapes.
func quote(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if word != "" && !strings.ContainsAny(word, " \t\"'\\;") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

var errNoExecStart = errors.New("no ExecStart= line")

// parseExecStart reads back the command of a unit file: what quote can write,
// and single quotes, as a person might have.
func parseExecStart(unit string) (program string, flags map[string]string, err error) {
	unit = strings.ReplaceAll(unit, "\\\n", " ")
	for line := range strings.Lines(unit) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !ok || command == "" {
			continue
		}
		words, err := splitWords(command)
		if err != nil {
			return "", nil, fmt.Errorf("read ExecStart=: %w", err)
		}
		program, flags = words[0], map[string]string{}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flags[name] = value
		}
		return program, flags, nil
	}
	return "", nil, errNoExecStart
}

func splitWords(command string) ([]string, error) {
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
