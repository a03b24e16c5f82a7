package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxComment is GitHub's limit for the length of a comment.
const MaxComment = 65536

// Markdown formats a report as a comment of at most limit bytes. If it would be longer, whole
// sections are left out, and the comment names them. What an apply destroys or replaces is
// always shown: by address, or at least by number.
func Markdown(r Report, limit int) string {
	r.Plans = r.sorted()
	return fit(newLayout(r, limit), limit)
}

// layout is a comment with the choice of what it shows.
type layout struct {
	report   Report
	limit    int
	sections [][]section // by plan
	omitted  []map[int]bool
	names    int // how many addresses of destroyed resources are shown for each plan and action
	rows     int // how many clusters the summary shows
}

func newLayout(r Report, limit int) layout {
	l := layout{report: r, limit: limit, names: -1, rows: len(r.Plans)}
	for _, p := range r.Plans {
		l.sections = append(l.sections, p.Plan.sections())
		l.omitted = append(l.omitted, map[int]bool{})
	}
	return l
}

// render writes the comment.
func (l layout) render() string {
	var b strings.Builder
	if l.report.Marker != "" {
		fmt.Fprintf(&b, "<!-- kube-review: %s -->\n", l.report.Marker)
	}
	fmt.Fprintf(&b, "### %s\n\n", plainName(l.report.Title))
	if l.report.fleet() {
		l.fleet(&b)
	} else {
		l.single(&b)
	}
	if l.report.Log != "" {
		fmt.Fprintf(&b, "\n[Log](<%s>)\n", l.report.Log)
	}
	return b.String()
}

// single writes the comment on one plan.
func (l layout) single(b *strings.Builder) {
	p := l.report.Plans[0]
	if p.Err != nil {
		fmt.Fprintf(b, "%s\n", p.failure())
		return
	}
	c := p.Plan.counts()
	fmt.Fprintf(b, "**%s** · %s%s%s\n", c.driftText(), c.changesText(), p.Plan.issuesText(), p.Plan.scoresText())
	b.WriteString(p.Plan.warnings())
	b.WriteString(l.report.verdictText(p))
	if destroyed := p.Plan.destructive(); len(destroyed) > 0 {
		b.WriteString("\n#### Destroyed or replaced\n\n")
		for _, line := range l.destructive(destroyed) {
			b.WriteString("- " + line + "\n")
		}
	}
	l.details(b, 0)
}

// details writes the sections of one plan that are not left out, and names the others.
func (l layout) details(b *strings.Builder, plan int) {
	var omitted []string
	for i, s := range l.sections[plan] {
		if l.omitted[plan][i] {
			omitted = append(omitted, s.name)
			continue
		}
		b.WriteString(s.text)
	}
	slices.Sort(omitted)
	if omitted = slices.Compact(omitted); len(omitted) > 0 {
		fmt.Fprintf(b, "\n_Left out, because this comment is limited to %d characters: %s._\n",
			l.limit, strings.Join(omitted, ", "))
	}
}

// destructive lists what an apply destroys and replaces, one line for each action.
func (l layout) destructive(all []destroyed) []string {
	var lines []string
	for start := 0; start < len(all); {
		var addresses []string
		end := start
		for ; end < len(all) && all[end].action == all[start].action; end++ {
			if l.names < 0 || len(addresses) < l.names {
				addresses = append(addresses, code(all[end].address))
			}
		}
		n, verb := end-start, string(all[start].action)
		switch {
		case len(addresses) == 0:
			lines = append(lines, fmt.Sprintf("**%s %s**", verb, number(n, "resource", "resources")))
		case len(addresses) < n:
			lines = append(lines, fmt.Sprintf("**%s**: %s, and %d more", verb, strings.Join(addresses, ", "), n-len(addresses)))
		default:
			lines = append(lines, fmt.Sprintf("**%s**: %s", verb, strings.Join(addresses, ", ")))
		}
		start = end
	}
	return lines
}

// warnings writes what makes a plan incomplete.
func (p Plan) warnings() string {
	text := ""
	if p.Errored {
		text += "\n> [!CAUTION]\n> **Planning failed.** This comment shows what was planned until then. " +
			"The log shows the error.\n"
	}
	if p.Partial {
		text += "\n> [!WARNING]\n> The plan is **partial** (`-target`, or deferred changes). Another plan must follow.\n"
	}
	return text
}

// failure describes why there is no plan.
func (p NamedPlan) failure() string {
	if errors.Is(p.Err, ErrNoPlan) {
		return "**Planning failed.** The log shows the error."
	}
	return "**The plan cannot be read:** " + code(p.Err.Error())
}

// issuesText counts the health issues that no finding covers.
func (p Plan) issuesText() string {
	if n := p.counts().issues; n > 0 {
		return fmt.Sprintf(" · health: **%s**", number(n, "issue", "issues"))
	}
	return ""
}

func (p Plan) scoresText() string {
	if scores := p.scores(); scores != "" {
		return " · production readiness " + scores
	}
	return ""
}

func (p Plan) scores() string {
	var scores []string
	for _, s := range p.Scores {
		scores = append(scores, fmt.Sprintf("**%g of %g**", s.Score, s.Total))
	}
	return strings.Join(scores, ", ")
}
