package simulated

import (
	"errors"
	"regexp"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// commands splits a script of calls as package host renders them into words: no
// expansions, quotes as shellescape writes them, one call a line.
func commands(script string) ([][]string, error) {
	var all [][]string
	var line []string
	var word strings.Builder
	inWord := false
	end := func() {
		if inWord {
			line = append(line, word.String())
		}
		word.Reset()
		inWord = false
	}
	for rest := script; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '\'', '"':
			quoted, after, closed := strings.Cut(rest, string(c))
			if !closed {
				return nil, errQuote
			}
			word.WriteString(quoted)
			inWord, rest = true, after
		case ' ', '\t':
			end()
		case '\n':
			end()
			if len(line) > 0 {
				all = append(all, line)
			}
			line = nil
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	if len(line) > 0 {
		all = append(all, line)
	}
	return all, nil
}

// variable is what a script's assignment gives a name, "" without one. Package
// host quotes a value where it has to be.
func variable(script, name string) string {
	found := regexp.MustCompile(`(?m)(?:^|[ ])` + name + `=(?:'([^']*)'|([^' \n]*)(?:[ ]|$))`).FindStringSubmatch(script)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
