package problem

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what is shown, in bytes. What a machine says has no limit of its own.
const (
	maxLine   = 2 << 10 // a summary, a line of progress
	maxField  = 16 << 10
	maxDetail = 64 << 10
)

// Visible escapes what is not plain text: control characters (among them terminal
// escapes), bidirectional and zero-width characters, and bytes that are not UTF-8.
// Line ends and tabs stay. All text from a machine passes through it before it is
// shown.
func Visible(text string) string {
	if isVisible(text) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case shown(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

func isVisible(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0
}

func shown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// Line is text as one visible line of bounded length.
func Line(text string) string {
	return shownWithin(strings.Join(strings.FieldsFunc(text, isBreak), " "), maxLine)
}

// Block is text of several visible lines, of bounded length.
func Block(text string) string { return shownWithin(text, maxField) }

// Indented is Block with all lines but the first indented, for a text within another one.
func Indented(text string) string {
	return strings.ReplaceAll(Block(strings.TrimRight(text, "\n")), "\n", "\n  ")
}

// Quote is a value from a machine for a message: quoted, in ASCII, of bounded length.
func Quote(value string) string {
	const most = 80
	if len(value) > most {
		return strconv.QuoteToASCII(value[:most]) + "…"
	}
	return strconv.QuoteToASCII(value)
}

// Lines is each of texts as a Line, up to a maximum number.
func Lines(texts []string) []string {
	const most = 200
	out := make([]string, 0, min(len(texts), most+1))
	for i, text := range texts {
		if i == most {
			return append(out, fmt.Sprintf("… and %d more", len(texts)-most))
		}
		out = append(out, Line(text))
	}
	return out
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// shownWithin makes text visible, with a bounded length before and after.
func shownWithin(text string, limit int) string { return bounded(Visible(bounded(text, limit)), limit) }

// bounded cuts out the middle of a long text: its beginning says what happened, and
// its end why.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit/2, len(text)-limit/2
	for head > 0 && !utf8.RuneStart(text[head]) && limit/2-head < utf8.UTFMax {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) && tail-(len(text)-limit/2) < utf8.UTFMax {
		tail++
	}
	return fmt.Sprintf("%s … [%d bytes left out] … %s", text[:head], tail-head, text[tail:])
}
