package review

import (
	"fmt"
	"slices"
	"strings"
)

// section is a part of a plan's details, which is left out as a whole if the comment would be
// too long.
type section struct {
	name string
	rank int // sections of a lower rank are left out first
	text string
}

// sections returns the details of a plan in the order in which they are shown. The ranks put
// last what a reviewer cannot do without.
func (p Plan) sections() []section {
	var all []section
	add := func(rank int, name, text string) {
		if text != "" {
			all = append(all, section{name, rank, text})
		}
	}
	whole := p.whole()
	for _, plane := range p.ControlPlanes {
		if len(p.ControlPlanes) > 1 && (len(plane.findings()) > 0 || len(plane.steps()) > 0) {
			name := plane.Module
			if name == "" {
				name = "root module"
			}
			add(9, "headings", fmt.Sprintf("\n---\n\n%s\n", code(name)))
		}
		add(7, "drift and problems", plane.findingsText())
		add(8, "the order of an apply", plane.stepsText())
		add(6, "what stays available", plane.availabilityText(whole))
	}
	add(8, "actions", p.invokedText())
	add(5, "health", p.healthText())
	add(2, "production readiness", p.readinessText())
	add(3, "deferred data sources", p.deferredText())
	add(4, "other providers' resources", p.othersText())
	add(1, "diagram", p.diagramText())
	return all
}

func (p ControlPlane) findingsText() string {
	findings := p.findings()
	if len(findings) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n#### Drift and problems\n\n")
	for start := 0; start < len(findings); {
		machine := findings[start].machine
		end := start
		for end < len(findings) && findings[end].machine == machine {
			end++
		}
		fmt.Fprintf(&b, "- **%s**\n", plainName(machine))
		for i, f := range findings[start:end] {
			if i == maxItems {
				fmt.Fprintf(&b, "  - … and %d more\n", end-start-maxItems)
				break
			}
			text := f.intro
			if f.text != "" {
				text += code(f.text)
			}
			fmt.Fprintf(&b, "  - %s: %s\n", f.part, text)
		}
		start = end
	}
	return b.String()
}

func (p ControlPlane) stepsText() string {
	steps := p.steps()
	if len(steps) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n#### What an apply does, in this order\n\n")
	for i, s := range steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s.title)
		writeItems(&b, s.items)
	}
	return b.String()
}

// writeItems writes items with the same text on one line, in their order.
func writeItems(b *strings.Builder, items []item) {
	for start := 0; start < len(items); {
		var names []string
		end := start
		for ; end < len(items) && items[end].text == items[start].text; end++ {
			names = append(names, "**"+plainName(items[end].name)+"**")
		}
		fmt.Fprintf(b, "   - %s: %s\n", strings.Join(names, ", "), markdown(items[start].text))
		start = end
	}
}

func (p ControlPlane) availabilityText(whole ControlPlane) string {
	if len(p.steps()) == 0 {
		return ""
	}
	text := "\n#### What stays available\n\n"
	for _, line := range p.availability(whole) {
		text += "- " + line + "\n"
	}
	return text
}

func (p Plan) healthText() string {
	var b strings.Builder
	for _, check := range p.HealthChecks {
		if check.Healthy == nil {
			continue
		}
		if *check.Healthy {
			fmt.Fprintf(&b, "\n%s: healthy.\n", code(check.Address))
			continue
		}
		fmt.Fprintf(&b, "\n%s: **%s**", code(check.Address), number(len(check.Issues), "issue", "issues"))
		others := p.uncovered(check)
		switch {
		case len(others) == 0 && len(check.Issues) > 0:
			b.WriteString(", listed above.\n")
			continue
		case len(others) < len(check.Issues):
			fmt.Fprintf(&b, ", %d of them listed above. The others:", len(check.Issues)-len(others))
		}
		b.WriteString("\n\n")
		list(&b, others, code)
	}
	return b.String()
}

// readinessText lists the items that do not pass. It is collapsed, because most of them rarely
// change.
func (p Plan) readinessText() string {
	var b strings.Builder
	for _, score := range p.Scores {
		if len(score.Open) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n<details><summary>Production readiness: %s not passed</summary>\n\n%s\n\n",
			number(len(score.Open), "item", "items"), code(score.Address))
		list(&b, score.Open, func(i Item) string {
			status := plainName(i.Status)
			if i.Accepted {
				status += ", accepted"
			}
			return status + ": " + plainName(i.Title) + ": " + code(i.Evidence)
		})
		b.WriteString("\n</details>\n")
	}
	return b.String()
}

func (p Plan) deferredText() string {
	if len(p.Deferred) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nThese data sources are read only during the apply, because they depend on what it changes:\n\n")
	list(&b, p.Deferred, code)
	return b.String()
}

func (p Plan) invokedText() string {
	if len(p.Invoked) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nActions that the apply invokes (addresses only):\n\n")
	list(&b, p.Invoked, code)
	return b.String()
}

func (p Plan) othersText() string {
	if len(p.Others) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nResources of other providers that change (addresses only):\n\n")
	list(&b, p.Others, func(o OtherResource) string { return string(o.Action) + ": " + code(o.Address) })
	return b.String()
}

func (p Plan) diagramText() string {
	var nodes string
	for i, plane := range p.ControlPlanes {
		nodes += plane.diagram(fmt.Sprintf("p%d", i))
	}
	if nodes == "" {
		return ""
	}
	text := fmt.Sprintf("\n```mermaid\nflowchart TB\n%s%s```\n\n", nodes, classes)
	if slices.ContainsFunc(p.ControlPlanes, func(p ControlPlane) bool { return !p.HealthKnown }) {
		text += "Not shown: health, the leader, and the holder of the virtual IP. " +
			"The plan has no result of `kube_control_plane`.\n"
	}
	return text + "Green: healthy. Blue: changes. Yellow: drifted. Red: unhealthy. Grey: unreachable or unknown.\n"
}
