package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// most is the limit of findings per machine, and of other resources, in a comment. A comment
// has to be readable within a minute, and forges truncate long ones.
const most = 12

// Render formats the plan as Markdown for a comment with that title.
func Render(plan Plan, title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", markdown(title))
	b.WriteString(plan.verdict() + "\n")
	if plan.Errored {
		b.WriteString("\n> [!CAUTION]\n> **Planning failed**: what follows is what had been planned until then. The log says why.\n")
	}
	if plan.Partial {
		b.WriteString("\n> [!WARNING]\n> The plan is **partial** (`-target`, or changes that are put off): another one has to follow.\n")
	}
	for _, plane := range plan.Planes {
		plane.render(&b, len(plan.Planes) > 1)
	}
	plan.renderChecks(&b)
	plan.renderScores(&b)
	plan.renderWaiting(&b)
	plan.renderElsewhere(&b)
	plan.renderDiagram(&b)
	return b.String()
}

// verdict summarizes the plan in one line.
func (p Plan) verdict() string {
	counts := map[Action]int{}
	for _, r := range p.resources() {
		counts[r.Action]++
	}
	for _, e := range p.Elsewhere {
		counts[e.Action]++
	}
	replaced := counts[Replace] + counts[CreateFirst]
	var says []string
	count := func(n int, words string) {
		if n > 0 {
			says = append(says, fmt.Sprintf("%d %s", n, words))
		}
	}
	count(counts[Create], "to create")
	count(counts[Update], "to change")
	count(replaced, "to replace")
	count(counts[Delete], "to destroy")
	count(counts[Import], "to import")
	count(counts[Forget], "to forget")
	if len(says) == 0 {
		says = []string{"Nothing to do"}
	}
	return fmt.Sprintf("**%s** · %s%s%s", p.driftInOneLine(), strings.Join(says, ", "), p.issuesInOneLine(), p.scoreInOneLine())
}

func (p Plan) driftInOneLine() string {
	var machines, parts []string
	for _, plane := range p.Planes {
		for _, f := range plane.findings() {
			machines, parts = append(machines, plane.Module+"/"+f.machine), append(parts, f.text)
		}
	}
	slices.Sort(machines)
	n := len(slices.Compact(machines))
	if n == 0 {
		return "No drift"
	}
	return fmt.Sprintf("%s on %s", number(len(parts), "finding", "findings"), number(n, "machine", "machines"))
}

// issuesInOneLine counts the health issues that no finding covers.
func (p Plan) issuesInOneLine() string {
	n := 0
	for _, check := range p.Checks {
		n += len(p.untold(check))
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" · health: **%s**", number(n, "issue", "issues"))
}

func (p Plan) scoreInOneLine() string {
	var scores []string
	for _, s := range p.Scores {
		scores = append(scores, fmt.Sprintf("**%g of %g**", s.Score, s.Total))
	}
	if len(scores) == 0 {
		return ""
	}
	return " · production readiness " + strings.Join(scores, ", ")
}

// render writes the section of one control plane.
func (p Plane) render(b *strings.Builder, several bool) {
	if several {
		name := p.Module
		if name == "" {
			name = "root module"
		}
		fmt.Fprintf(b, "\n---\n\n%s\n", code(name))
	}
	if findings := p.findings(); len(findings) > 0 {
		b.WriteString("\n#### Drift and problems\n\n")
		renderFindings(b, findings)
	}
	if steps := p.steps(); len(steps) > 0 {
		b.WriteString("\n#### What an apply does, in this order\n\n")
		for i, s := range steps {
			fmt.Fprintf(b, "%d. %s\n", i+1, s.title)
			renderItems(b, s.items)
		}
		b.WriteString("\n#### What stays available\n\n")
		for _, line := range p.available() {
			b.WriteString("- " + line + "\n")
		}
	}
}

func renderFindings(b *strings.Builder, findings []finding) {
	for start := 0; start < len(findings); {
		machine := findings[start].machine
		end := start
		for end < len(findings) && findings[end].machine == machine {
			end++
		}
		fmt.Fprintf(b, "- **%s**\n", plainName(machine))
		for i, f := range findings[start:end] {
			if i == most {
				fmt.Fprintf(b, "  - … and %d more\n", end-start-most)
				break
			}
			text := f.ours
			if f.text != "" {
				text += code(f.text)
			}
			fmt.Fprintf(b, "  - %s: %s\n", f.part, text)
		}
		start = end
	}
}

// renderItems writes items with the same text on one line, in their order.
func renderItems(b *strings.Builder, items []item) {
	for start := 0; start < len(items); {
		var names []string
		end := start
		for ; end < len(items) && items[end].what == items[start].what; end++ {
			names = append(names, "**"+plainName(items[end].name)+"**")
		}
		fmt.Fprintf(b, "   - %s: %s\n", strings.Join(names, ", "), markdown(items[start].what))
		start = end
	}
}

func (p Plan) renderChecks(b *strings.Builder) {
	for _, check := range p.Checks {
		if check.Healthy == nil {
			continue
		}
		if *check.Healthy {
			fmt.Fprintf(b, "\n%s: healthy.\n", code(check.Address))
			continue
		}
		fmt.Fprintf(b, "\n%s: **%s**", code(check.Address), number(len(check.Issues), "issue", "issues"))
		left := p.untold(check)
		switch {
		case len(left) == 0 && len(check.Issues) > 0:
			b.WriteString(", listed above.\n")
			continue
		case len(left) < len(check.Issues):
			fmt.Fprintf(b, ", %d of them listed above; besides", len(check.Issues)-len(left))
		}
		b.WriteString("\n\n")
		list(b, left, code)
	}
}

// renderScores lists the items that do not pass. It is collapsed, because most of them rarely
// change.
func (p Plan) renderScores(b *strings.Builder) {
	for _, score := range p.Scores {
		if len(score.Open) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n<details><summary>Production readiness: %s to look at</summary>\n\n%s\n\n", number(len(score.Open), "item", "items"), code(score.Address))
		list(b, score.Open, func(i Item) string { return i.Status + ": " + plainName(i.Title) + ": " + code(i.Evidence) })
		b.WriteString("\n</details>\n")
	}
}

func (p Plan) renderWaiting(b *strings.Builder) {
	if len(p.Waiting) == 0 {
		return
	}
	b.WriteString("\nRead during the apply only, because they depend on what it changes:\n\n")
	list(b, p.Waiting, code)
}

// list writes a list of limited length.
func list[T any](b *strings.Builder, items []T, text func(T) string) {
	for i, item := range items {
		if i == most {
			fmt.Fprintf(b, "- … and %d more\n", len(items)-most)
			break
		}
		fmt.Fprintf(b, "- %s\n", text(item))
	}
}

func (p Plan) renderElsewhere(b *strings.Builder) {
	if len(p.Elsewhere) == 0 {
		return
	}
	fmt.Fprintf(b, "\nBesides, %s of other providers (not shown but for their names):\n\n", number(len(p.Elsewhere), "resource", "resources"))
	list(b, p.Elsewhere, func(e Elsewhere) string { return string(e.Action) + ": " + code(e.Address) })
}

func (p Plan) renderDiagram(b *strings.Builder) {
	var nodes string
	for i, plane := range p.Planes {
		nodes += plane.diagram(fmt.Sprintf("p%d", i))
	}
	if nodes == "" {
		return
	}
	fmt.Fprintf(b, "\n```mermaid\nflowchart TB\n%s%s```\n\n", nodes, classes)
	if unasked := func(p Plane) bool { return !p.Asked }; slices.ContainsFunc(p.Planes, unasked) {
		b.WriteString("Health is not shown, nor who leads or holds the virtual IP: no `kube_control_plane` was read for this plan.\n")
	}
	b.WriteString("Green: healthy. Blue: changes. Yellow: drifted. Red: unhealthy. Grey: unreachable, or never seen.\n")
}

// plainName formats a name for running text and escapes all Markdown in it.
func plainName(name string) string { return markdown(strings.Join(strings.Fields(name), " ")) }

// markup escapes the characters that have a meaning in Markdown, or form links automatically.
var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "@", "&#64;", "|", `\|`, "~", `\~`, "#", `\#`,
	"&", "&amp;", "!", `\!`, "://", "&#58;//", "www.", "www&#46;")

// markdown escapes Markdown in text that comes from a plan.
func markdown(text string) string {
	return markup.Replace(problem.Line(text))
}
