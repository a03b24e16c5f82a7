package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Applied is what a run of a pipeline has done with a plan that the policy allowed.
type Applied string

// The outcomes. The values are those of the flag -applied.
const (
	AppliedNothing Applied = "no"
	AppliedAll     Applied = "yes"
	ApplyFailed    Applied = "failed"
)

// The limits of what one plan adds to Prometheus: one series for each resource with drift, up to the first, and
// labels up to the second, in bytes.
const (
	maxSeries = 100
	maxLabel  = 200
)

// resourceLabels are the labels of a resource's series.
type resourceLabels struct{ kind, address string }

// Metrics returns what a report says as OpenMetrics text, which the textfile collector of node_exporter and a
// Pushgateway take too. The label cluster is the name of the plan.
func Metrics(r Report, applied Applied) string {
	var b strings.Builder
	plans := r.sorted()
	family := func(name, help string, samples func(p NamedPlan, sample func(value float64, labels ...string))) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, help)
		for _, p := range plans {
			samples(p, func(value float64, labels ...string) {
				fmt.Fprintf(&b, "%s{%s} %.0f\n", name, labelled(append([]string{"cluster", p.Name}, labels...)), value)
			})
		}
	}
	family("kube_plan_timestamp_seconds", "When the plan was made, or failed.",
		func(p NamedPlan, sample func(float64, ...string)) { sample(float64(p.madeAt(r.Now).Unix())) })
	family("kube_plan_success", "Whether planning succeeded.",
		func(p NamedPlan, sample func(float64, ...string)) { sample(truth(p.Err == nil && !p.Plan.Errored)) })
	for _, m := range []struct {
		name, help string
		due        bool
	}{
		{"kube_plan_drift_findings", "Drift of a resource that the plan found, without certificates that are due.", false},
		{"kube_plan_certificates_due", "Certificates of a resource that the plan found due for renewal.", true},
	} {
		family(m.name, m.help, func(p NamedPlan, sample func(float64, ...string)) {
			counts := p.Plan.countsOf(m.due)
			for _, l := range slices.SortedFunc(maps.Keys(counts), compareLabels) {
				sample(float64(counts[l]), "resource", l.kind, "address", l.address)
			}
		})
	}
	family("kube_plan_class", "1 for the class of the plan: none, drill, renewal, repair or other.",
		func(p NamedPlan, sample func(float64, ...string)) {
			if v := r.verdict(p); v != nil {
				for _, class := range slices.Concat([]Class{ClassNone}, changeClasses, []Class{ClassOther}) {
					sample(truth(v.Class == class), "class", string(class))
				}
			}
		})
	family("kube_plan_waits_for_person", "Whether a person decides about the plan.",
		func(p NamedPlan, sample func(float64, ...string)) {
			if v := r.verdict(p); v != nil {
				sample(truth(v.Class != ClassNone && !v.Automatic))
			}
		})
	family("kube_plan_applied", "Whether the run that made the plan has applied something before.",
		func(_ NamedPlan, sample func(float64, ...string)) { sample(truth(applied == AppliedAll)) })
	family("kube_plan_apply_failed", "Whether an apply of the run that made the plan has failed before.",
		func(_ NamedPlan, sample func(float64, ...string)) { sample(truth(applied == ApplyFailed)) })
	b.WriteString("# EOF\n")
	return b.String()
}

// madeAt is when a plan was made. One that failed says nothing: it failed now.
func (p NamedPlan) madeAt(now time.Time) time.Time {
	if p.Plan.Time.IsZero() {
		return now
	}
	return p.Plan.Time
}

// countsOf counts drift by resource, or the certificates that are due. What is beyond the limit has no address.
func (p Plan) countsOf(certificates bool) map[resourceLabels]int {
	counts := map[resourceLabels]int{}
	for _, r := range p.resources() {
		n := 0
		for _, text := range r.Drift {
			if due.MatchString(text) == certificates {
				n++
			}
		}
		if r.Missing && !certificates {
			n++
		}
		if n > 0 {
			counts[resourceLabels{r.Kind, bounded(r.Address)}] += n
		}
	}
	if len(counts) <= maxSeries {
		return counts
	}
	for _, l := range slices.SortedFunc(maps.Keys(counts), compareLabels)[maxSeries:] {
		counts[resourceLabels{l.kind, ""}] += counts[l]
		delete(counts, l)
	}
	return counts
}

func compareLabels(a, b resourceLabels) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.address, b.address))
}

// bounded returns a text as one line of valid UTF-8 that is no longer than a label may be.
func bounded(text string) string {
	text = problem.Line(text)
	if len(text) <= maxLabel {
		return text
	}
	return strings.ToValidUTF8(text[:maxLabel], "") + "…"
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelled returns names and values of labels as they stand in braces.
func labelled(pairs []string) string {
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, pairs[i]+`="`+labelEscapes.Replace(pairs[i+1])+`"`)
	}
	return strings.Join(all, ",")
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
