package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxName is the limit of a cluster's name in a comment.
const maxName = 100

// fleet writes the comment on several plans: a summary by cluster, what is destroyed, and the
// details of each cluster, collapsed.
func (l layout) fleet(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n", l.report.total())
	if len(l.report.Plans) == 0 {
		return
	}
	l.table(b)
	l.fleetDestructive(b)
	hidden := 0
	for i, p := range l.report.Plans {
		switch {
		case p.Err != nil || p.Plan.quiet():
		case len(l.omitted[i]) == len(l.sections[i]):
			hidden++
		default:
			c := p.Plan.counts()
			fmt.Fprintf(b, "\n<details><summary>%s: %s, %s</summary>\n",
				clusterName(p), inline(c.driftText()), inline(c.changesText()))
			b.WriteString(p.Plan.warnings())
			b.WriteString(l.report.verdictText(p))
			l.details(b, i)
			b.WriteString("\n</details>\n")
		}
	}
	if hidden > 0 {
		fmt.Fprintf(b, "\n_Left out, because this comment is limited to %d characters: the details of %s._\n",
			l.limit, number(hidden, "cluster", "clusters"))
	}
}

// quiet reports whether the summary says all there is to say.
func (p Plan) quiet() bool {
	c := p.counts()
	open := slices.ContainsFunc(p.Scores, func(s Score) bool { return len(s.Open) > 0 })
	return c.findings+c.issues+c.changes() == 0 && !p.Errored && !p.Partial && !open && len(p.Deferred) == 0
}

// total sums up all plans in one line.
func (r Report) total() string {
	c := r.counts()
	text := fmt.Sprintf("**%s** · %s · %s", number(len(r.Plans), "cluster", "clusters"), c.driftText(), c.changesText())
	if c.issues > 0 {
		text += fmt.Sprintf(" · health: **%s**", number(c.issues, "issue", "issues"))
	}
	missing := 0
	for _, p := range r.Plans {
		if p.Err != nil || p.Plan.Errored {
			missing++
		}
	}
	if missing > 0 {
		text += fmt.Sprintf(" · **%s without a complete plan**", number(missing, "cluster", "clusters"))
	}
	return text
}

// table writes the summary by cluster, the most urgent first.
func (l layout) table(b *strings.Builder) {
	b.WriteString("\n| cluster | drift | changes | health | readiness |\n|---|---|---|---|---|\n")
	for _, p := range l.report.Plans[:l.rows] {
		b.WriteString(p.row())
	}
	if rest := l.report.Plans[l.rows:]; len(rest) > 0 {
		sum := Report{Plans: rest}.counts()
		fmt.Fprintf(b, "| %d more | %s | %s | | |\n", len(rest), inline(sum.driftText()), inline(sum.changesText()))
	}
}

// row is the summary of one cluster.
func (p NamedPlan) row() string {
	name := clusterName(p)
	if errors.Is(p.Err, ErrNoPlan) {
		return fmt.Sprintf("| %s | | **planning failed** | | |\n", name)
	}
	if p.Err != nil {
		reason := strings.ReplaceAll(code(p.Err.Error()), "|", `\|`)
		return fmt.Sprintf("| %s | | **cannot be read**: %s | | |\n", name, reason)
	}
	c := p.Plan.counts()
	changes := inline(c.changesText())
	if c.destroyed() > 0 {
		changes = "**" + changes + "**"
	}
	if p.Plan.Errored {
		changes = "**planning failed** after: " + changes
	}
	if p.Plan.Partial {
		changes += " (partial)"
	}
	drift := inline(c.driftText())
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, drift, changes, p.Plan.health(), p.Plan.scores())
}

// health sums up the health checks of a plan. Issues that are findings count too.
func (p Plan) health() string {
	issues, known := 0, false
	for _, check := range p.HealthChecks {
		if check.Healthy != nil {
			known = true
			issues += len(check.Issues)
		}
	}
	switch {
	case !known:
		return ""
	case issues == 0:
		return "healthy"
	}
	return "**" + number(issues, "issue", "issues") + "**"
}

// fleetDestructive lists what an apply destroys or replaces by cluster. Only the first rows are
// shown with the summary's; the total counts all.
func (l layout) fleetDestructive(b *strings.Builder) {
	c := l.report.counts()
	if c.destroyed() == 0 {
		return
	}
	fmt.Fprintf(b, "\n#### Destroyed or replaced: %s\n\n", number(c.destroyed(), "resource", "resources"))
	hidden := 0
	for i, p := range l.report.Plans {
		destroyed := p.Plan.destructive()
		switch {
		case len(destroyed) == 0:
		case i >= l.rows:
			hidden += len(destroyed)
		default:
			fmt.Fprintf(b, "- %s: %s\n", clusterName(p), strings.Join(l.destructive(destroyed), "; "))
		}
	}
	if hidden > 0 {
		fmt.Fprintf(b, "- **%s** in other clusters. Their plans show them.\n", number(hidden, "resource", "resources"))
	}
}

// clusterName formats the name of a cluster.
func clusterName(p NamedPlan) string {
	name := []rune(p.Name)
	if len(name) > maxName {
		name = append(name[:maxName], '…')
	}
	return plainName(string(name))
}

// inline formats a text for the middle of a line.
func inline(text string) string { return strings.ToLower(text[:1]) + text[1:] }
