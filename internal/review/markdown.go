package review

import (
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// code formats text as a Markdown code span, in which links, mentions and tags have no effect.
// Text from machines is shown this way, with limited length.
func code(text string) string {
	const limit = 300
	text = strings.Join(strings.Fields(problem.Line(text)), " ")
	if characters := []rune(text); len(characters) > limit {
		text = string(characters[:limit]) + "…"
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fmt.Sprintf("%s%s%s", fence, text, fence)
}

// plainName formats a name for running text and escapes all Markdown in it.
func plainName(name string) string { return markdown(strings.Join(strings.Fields(name), " ")) }

// markup escapes the characters that have a meaning in Markdown, or form links automatically.
var markup = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "~", `\~`, "#", `\#`, "!", `\!`, "|", `\|`,
	"<", "&lt;", ">", "&gt;", "@", "&#64;", "&", "&amp;", "://", "&#58;//", "www.", "www&#46;",
)

// markdown escapes Markdown in text that comes from a plan.
func markdown(text string) string {
	return markup.Replace(problem.Line(text))
}

// number formats a count with its noun.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// maxItems is the limit of findings per machine, and of the items in other lists. A comment has
// to be readable within a minute.
const maxItems = 12

// list writes a list of limited length.
func list[T any](b *strings.Builder, items []T, text func(T) string) {
	for i, item := range items {
		if i == maxItems {
			fmt.Fprintf(b, "- … and %d more\n", len(items)-maxItems)
			break
		}
		fmt.Fprintf(b, "- %s\n", text(item))
	}
}
