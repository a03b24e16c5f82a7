package review

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Report is one comment: the plan of one control plane, or the plans of a fleet.
type Report struct {
	Title  string
	Marker string // by which a pipeline finds its own comment; see ValidMarker
	Log    string // URL of the pipeline's log; see ValidLog
	Plans  []NamedPlan
	Policy *Policy   // nil: the plans are not judged
	Now    time.Time // when they are judged

	// PartOf is the complete plan of which the only plan is a part; nil: plans are complete. See JudgePart.
	PartOf *NamedPlan
}

// NamedPlan is a plan with the name of its cluster, or the reason why there is none.
type NamedPlan struct {
	Name string // "" if the report is about this plan only
	Plan Plan
	Err  error // why the plan cannot be read
}

// ErrNoPlan is the error of an empty file: a pipeline writes one if planning failed.
var ErrNoPlan = errors.New("planning failed: there is no plan")

// Read reads the plan of a cluster. A plan that cannot be read is part of the report.
func Read(name string, text []byte) NamedPlan {
	if len(bytes.TrimSpace(text)) == 0 {
		return NamedPlan{Name: name, Err: ErrNoPlan}
	}
	plan, ok, err := parseReduced(text)
	if !ok {
		plan, err = Parse(text)
	}
	return NamedPlan{Name: name, Plan: plan, Err: err}
}

var marker = regexp.MustCompile(`^[A-Za-z0-9_.]+([-/ ][A-Za-z0-9_.]+)*$`)

// ValidMarker reports whether a name can be in a marker. It cannot end the comment that hides it.
func ValidMarker(name string) bool { return len(name) <= 100 && marker.MatchString(name) }

var logURL = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$`)

// ValidLog reports whether a URL can be in a link.
func ValidLog(url string) bool { return len(url) <= 1000 && logURL.MatchString(url) }

// fleet reports whether the report has a summary by cluster.
func (r Report) fleet() bool { return len(r.Plans) != 1 || r.Plans[0].Name != "" }

// Complete reports whether every plan was read and no planning failed.
func (r Report) Complete() bool {
	return !slices.ContainsFunc(r.Plans, func(p NamedPlan) bool { return p.Err != nil || p.Plan.Errored })
}

// sorted returns the plans, the most urgent first, then by name.
func (r Report) sorted() []NamedPlan {
	plans := slices.Clone(r.Plans)
	slices.SortStableFunc(plans, func(a, b NamedPlan) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(a.Name, b.Name))
	})
	return plans
}

// urgency orders plans in the summary: without a plan, destructive, with findings or changes,
// and the rest.
func (p NamedPlan) urgency() int {
	counts := p.Plan.counts()
	switch {
	case p.Err != nil || p.Plan.Errored:
		return 0
	case counts.destroyed() > 0:
		return 1
	case counts.findings > 0 || counts.issues > 0:
		return 2
	case counts.changes() > 0:
		return 3
	}
	return 4
}

// counts are the figures of a plan or of all plans.
type counts struct {
	findings, machines int
	issues             int // health issues that no finding covers
	actions            map[Action]int
}

func (p Plan) counts() counts {
	c := counts{actions: map[Action]int{}}
	for _, r := range p.resources() {
		c.actions[r.Action]++
	}
	for _, o := range p.Others {
		c.actions[o.Action]++
	}
	for _, plane := range p.ControlPlanes {
		machines := map[string]bool{}
		for _, f := range plane.findings() {
			c.findings++
			machines[f.machine] = true
		}
		c.machines += len(machines)
	}
	for _, check := range p.HealthChecks {
		c.issues += len(p.uncovered(check))
	}
	return c
}

// counts returns the sums over all plans.
func (r Report) counts() counts {
	sum := counts{actions: map[Action]int{}}
	for _, p := range r.Plans {
		c := p.Plan.counts()
		sum.findings, sum.machines, sum.issues = sum.findings+c.findings, sum.machines+c.machines, sum.issues+c.issues
		for action, n := range c.actions {
			sum.actions[action] += n
		}
	}
	return sum
}

func (c counts) replaced() int { return c.actions[Replace] + c.actions[CreateFirst] }
func (c counts) forsaken() int { return c.actions[ForgetFirst] + c.actions[ForgetLast] }
func (c counts) destroyed() int {
	return c.actions[Delete] + c.replaced() + c.forsaken() + c.actions[Unknown]
}

func (c counts) changes() int {
	n := 0
	for action, count := range c.actions {
		if action != Keep {
			n += count
		}
	}
	return n
}

// changesText lists how many resources an apply creates, changes and so on.
func (c counts) changesText() string {
	var parts []string
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
	}
	add(c.actions[Create], "to create")
	add(c.actions[Update], "to change")
	add(c.replaced(), "to replace")
	add(c.forsaken(), "to replace, the old ones stay")
	add(c.actions[Delete], "to destroy")
	add(c.actions[Import], "to import")
	add(c.actions[Forget], "to forget")
	add(c.actions[Unknown], "to change in a way that kube-review does not know")
	if len(parts) == 0 {
		return "Nothing to do"
	}
	return strings.Join(parts, ", ")
}

func (c counts) driftText() string {
	if c.findings == 0 {
		return "No drift"
	}
	return fmt.Sprintf("%s on %s", number(c.findings, "finding", "findings"), number(c.machines, "machine", "machines"))
}

// destroyed is a resource that an apply destroys or replaces, or may.
type destroyed struct {
	address string
	action  Action // Delete, Replace, ForgetFirst or Unknown
}

// destructive lists what an apply destroys, then what it replaces, also of other providers.
func (p Plan) destructive() []destroyed {
	var all []destroyed
	add := func(address string, action Action) {
		switch {
		case action == Delete:
			all = append(all, destroyed{address, Delete})
		case action.destroys():
			all = append(all, destroyed{address, Replace})
		case action.forsakes():
			all = append(all, destroyed{address, ForgetFirst})
		case action == Unknown:
			all = append(all, destroyed{address, Unknown})
		}
	}
	for _, r := range p.resources() {
		add(r.Address, r.Action)
	}
	for _, o := range p.Others {
		add(o.Address, o.Action)
	}
	slices.SortFunc(all, func(a, b destroyed) int {
		return cmp.Or(cmp.Compare(a.action, b.action), cmp.Compare(a.address, b.address))
	})
	return all
}

// Verdicts judges the plans of a report by its policy, in their order. Without a policy there are
// none.
func (r Report) Verdicts() []Verdict {
	var all []Verdict
	for _, p := range r.Plans {
		if v := r.verdict(p); v != nil {
			all = append(all, *v)
		}
	}
	return all
}

func (r Report) verdict(p NamedPlan) *Verdict {
	if r.Policy == nil {
		return nil
	}
	v := Judge(p, *r.Policy, r.Now)
	if r.PartOf != nil {
		v = JudgePart(p, *r.PartOf, *r.Policy, r.Now)
	}
	return &v
}

// verdictText is the line of a comment about a plan.
func (r Report) verdictText(p NamedPlan) string {
	if v := r.verdict(p); v != nil {
		return "\n" + v.String() + "\n"
	}
	return ""
}
