package simulated

import (
	"errors"
	"strings"
)

var errQuote = errors.New("a quote is not closed")

// nextCall parses the first line of a script as package host renders it: words without
// expansions, quoted as by shellescape.
func nextCall(script string) (words []string, rest string, err error) {
	var word strings.Builder
	inWord := false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for rest = script; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '\'', '"':
			quoted, after, closed := strings.Cut(rest, string(c))
			if !closed {
				return nil, "", errQuote
			}
			word.WriteString(quoted)
			inWord, rest = true, after
		case ' ', '\t', '\n':
			end()
			if c == '\n' {
				return words, rest, nil
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	return words, "", nil
}

// calls returns all lines of a script except empty ones.
func calls(script string) (all [][]string, err error) {
	for script != "" {
		var words []string
		if words, script, err = nextCall(script); err != nil {
			return nil, err
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	return all, nil
}

// variables returns what package host assigns before a script: the first assignment of each
// name. If the beginning of a script cannot be split, it has none.
func variables(script string) map[string]string {
	vars := map[string]string{}
	for script != "" {
		words, rest, err := nextCall(script)
		if err != nil {
			break
		}
		for _, word := range words {
			name, value, is := strings.Cut(word, "=")
			if _, known := vars[name]; is && !known {
				vars[name] = value
			}
		}
		script = rest
	}
	return vars
}
