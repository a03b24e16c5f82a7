package review

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// hostileText is text that a compromised machine may put into its answers: links, pictures, mentions,
// tags, the end of a code span or a block, terminal escapes, invisible characters, invalid
// UTF-8 (which JSON cannot carry), and excessive length.
const hostileText = "x`` ` ```\n```\n~~~\n# Heading\n- [x] done\n> [!NOTE]\n@everyone " +
	"![p](https://evil.example/p.png) [c](https://evil.example) <https://evil.example> " +
	"<img src=x onerror=alert(1)> <details open> </details> <!-- hidden --> " +
	"https://evil.example www.evil.example evil@evil.example #1 " +
	"| a | b |\n\n<script>alert(1)</script>\x1b[31m\u009b2J\u202e\u2066\u200b\U000e0041\x07\"]; " +
	"click e0 \"https://evil.example\"\n%%{init: {}}%%\n"

// poisoned appends text to every string below value, except those that decide which parts of a
// plan are read.
func poisoned(value any, text string) any {
	switch value := value.(type) {
	case string:
		return value + text
	case []any:
		for i := range value {
			value[i] = poisoned(value[i], text)
		}
	case map[string]any:
		for key, child := range value {
			value[key] = poisoned(child, text)
		}
	}
	return value
}

// poisonPlan makes the machines of a plan answer with text, both in the refreshed state and in
// data sources.
func poisonPlan(d map[string]any, text string) {
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, child := range value {
				walk(child)
			}
		case map[string]any:
			for key, child := range value {
				switch key {
				case "before", "after", "values":
					if values, ok := child.(map[string]any); ok && values["root_module"] == nil {
						value[key] = poisoned(child, text)
						continue
					}
				}
				walk(child)
			}
		}
	}
	walk(d)
}

var spans = regexp.MustCompile("(?s)```mermaid\n.*?\n```\n")

// prose returns Markdown without its code spans (CommonMark, 6.1) and the diagram.
func prose(t *testing.T, markdown string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(spans.ReplaceAllString(markdown, "")) {
		for rest := line; rest != ""; {
			open := strings.IndexByte(rest, '`')
			if open < 0 {
				b.WriteString(rest)
				break
			}
			if open > 0 && rest[open-1] == '\\' {
				b.WriteString(rest[:open+1])
				rest = rest[open+1:]
				continue
			}
			b.WriteString(rest[:open])
			rest = rest[open:]
			fence := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
			rest = rest[len(fence):]
			end := closing(rest, len(fence))
			if end < 0 {
				t.Errorf("a code span is not closed: %q", line)
				break
			}
			rest = rest[end+len(fence):]
		}
	}
	return b.String()
}

// closing returns where the first run of exactly n backticks begins in text, or -1.
func closing(text string, n int) int {
	for at := 0; at < len(text); {
		start := strings.IndexByte(text[at:], '`')
		if start < 0 {
			return -1
		}
		start += at
		run := len(text[start:]) - len(strings.TrimLeft(text[start:], "`"))
		if run == n {
			return start
		}
		at = start + run
	}
	return -1
}

var (
	live = regexp.MustCompile(`(?i)(^|[^\\])(\]\(|!\[)|https?://|www\.|@(everyone|evil)|` +
		`<(img|script|/details> |!--|https)`)
	ownTags = regexp.MustCompile(`(?m)^(<details><summary>[^<>]*</summary>|</details>)$`)
)

// TestCommentsOfHostileMachines checks that text from a machine stays plain text in a comment,
// and that the comment stays within a forge's length limit.
func TestCommentsOfHostileMachines(t *testing.T) {
	poison := 0
	for _, name := range plans {
		blocks := strings.Count(comment(t, document(t, name)), "\n```")
		for what, text := range map[string]string{"once": hostileText, "long": strings.Repeat(hostileText, 30)} {
			d := document(t, name)
			poisonPlan(d, text)
			got := comment(t, d)
			poison += strings.Count(got, "evil")
			if len(got) > 60_000 {
				t.Errorf("%s, %s: %d bytes", name, what, len(got))
			}
			expectPlain(t, name+", "+what, got, blocks)
		}
	}
	if poison == 0 {
		t.Error("no comment contains the text of the machines: the test proves nothing")
	}
}

// TestFleetOfHostileMachines checks the same for the comment on a fleet, whose clusters and
// errors have such names, and that the JSON has no invisible characters.
func TestFleetOfHostileMachines(t *testing.T) {
	d := document(t, "asked")
	blocks := strings.Count(comment(t, d), "\n```")
	poisonPlan(d, hostileText)
	report := Report{Title: hostileText, Plans: []NamedPlan{
		readPlan(t, "a"+hostileText, d), {Name: "b" + hostileText, Err: errors.New(hostileText)},
	}}
	got := Markdown(report, MaxComment)
	expectPlain(t, "fleet", got, blocks)
	if rows := strings.Count(got, "\n| "); rows != 3 || !strings.Contains(got, "evil") {
		t.Errorf("the summary has %d rows:\n%s", rows, got)
	}
	text, err := JSON(report)
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.IndexFunc(string(text), invisible); at >= 0 {
		t.Errorf("the JSON has an invisible character: %q", text[at:])
	}
}

func invisible(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// expectPlain checks that a comment has only markup of its own, and that many blocks of code.
func expectPlain(t *testing.T, what, got string, blocks int) {
	t.Helper()
	if strings.ContainsFunc(got, invisible) {
		t.Errorf("%s: it has invisible characters", what)
	}
	plain := ownTags.ReplaceAllString(prose(t, got), "")
	if markup := live.FindString(plain); markup != "" {
		t.Errorf("%s: it has the markup %q:\n%s", what, markup, plain)
	}
	for line := range strings.Lines(got) {
		begins := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		if slices.ContainsFunc([]string{"# Heading", "~~~", "%%{", "<script"}, begins) {
			t.Errorf("%s: a machine writes a line: %q", what, line)
		}
	}
	if strings.Count(got, "\n```") != blocks {
		t.Errorf("%s: a block begins or ends", what)
	}
	for diagram := range strings.Lines(strings.Join(spans.FindAllString(got, -1), "")) {
		clicks := strings.Contains(diagram, "click ") && !strings.Contains(diagram, `["`)
		if clicks || strings.Count(diagram, `"`) > 2 {
			t.Errorf("%s: a label of the diagram ends early: %q", what, diagram)
		}
	}
}
