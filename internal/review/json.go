package review

import (
	"encoding/json"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// FormatVersion is the version of the JSON format. A new field raises the second number. A
// removed or changed field raises the first one.
const FormatVersion = "1.2"

// jsonReport is the report as JSON. The guide on drift review documents it.
type jsonReport struct {
	FormatVersion string     `json:"format_version"`
	Title         string     `json:"title"`
	Complete      bool       `json:"complete"` // every plan was read, and no planning failed
	Summary       jsonCounts `json:"summary"`
	Plans         []jsonPlan `json:"plans"`
}

type jsonCounts struct {
	Findings int `json:"findings"` // drift and problems
	Machines int `json:"machines"` // how many machines have findings
	Issues   int `json:"issues"`   // of the health checks, without those that are findings
	Create   int `json:"create"`
	Change   int `json:"change"`
	Replace  int `json:"replace"`
	Destroy  int `json:"destroy"`
	Import   int `json:"import"`
	Forget   int `json:"forget"`
	Unknown  int `json:"unknown"` // changes that kube-review does not know
}

type jsonPlan struct {
	Name          string             `json:"name"`
	Status        string             `json:"status"` // "planned", "errored", "unreadable"
	Error         string             `json:"error,omitempty"`
	Partial       bool               `json:"partial"`
	Verdict       *jsonVerdict       `json:"verdict,omitempty"` // with a policy
	Summary       jsonCounts         `json:"summary"`
	Destructive   []jsonChange       `json:"destructive"` // of all providers
	ControlPlanes []jsonControlPlane `json:"control_planes"`
	Health        []jsonHealth       `json:"health"`
	Readiness     []jsonScore        `json:"readiness"`
	Deferred      []string           `json:"deferred_data_sources"`
	Others        []jsonChange       `json:"other_changes"` // of other providers
}

type jsonVerdict struct {
	Class     Class    `json:"class"` // "none", "renewal", "repair", "other"
	Automatic bool     `json:"automatic"`
	Machines  []string `json:"machines"` // addresses
	Reasons   []string `json:"reasons"`  // why a person decides: Markdown
}

type jsonControlPlane struct {
	Module       string        `json:"module"` // "" for the root module
	Findings     []jsonFinding `json:"findings"`
	Steps        []jsonStep    `json:"steps"`
	Availability []string      `json:"availability"` // Markdown
}

type jsonFinding struct {
	Machine string `json:"machine"`
	Part    string `json:"part"` // "etcd", "replica", "endpoint", "machine", …
	Text    string `json:"text"`
}

type jsonStep struct {
	Title   string     `json:"title"` // Markdown
	Changes []jsonItem `json:"changes"`
}

type jsonItem struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type jsonChange struct {
	Address string `json:"address"`
	Action  string `json:"action"` // see jsonAction
}

type jsonHealth struct {
	Address string   `json:"address"`
	Healthy *bool    `json:"healthy"` // null: not known
	Issues  []string `json:"issues"`
}

type jsonScore struct {
	Address string  `json:"address"`
	Score   float64 `json:"score"`
	Total   float64 `json:"total"`
	Items   []Item  `json:"items"` // that did not pass
}

// JSON formats a report for other programs. It has the facts of the comment, without a limit.
func JSON(r Report) ([]byte, error) {
	out := jsonReport{
		FormatVersion: FormatVersion, Title: problem.Line(r.Title), Complete: r.Complete(),
		Summary: r.counts().json(), Plans: []jsonPlan{},
	}
	for _, p := range r.sorted() {
		plan := p.json()
		if v := r.verdict(p); v != nil {
			plan.Verdict = &jsonVerdict{v.Class, v.Automatic, lines(v.Machines), lines(v.Reasons)}
		}
		out.Plans = append(out.Plans, plan)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return append(text, '\n'), nil
}

func (c counts) json() jsonCounts {
	return jsonCounts{
		Findings: c.findings, Machines: c.machines, Issues: c.issues,
		Create: c.actions[Create], Change: c.actions[Update], Replace: c.replaced() + c.forsaken(),
		Destroy: c.actions[Delete], Import: c.actions[Import], Forget: c.actions[Forget], Unknown: c.actions[Unknown],
	}
}

func (p NamedPlan) json() jsonPlan {
	out := jsonPlan{
		Name: problem.Line(p.Name), Status: "planned", Partial: p.Plan.Partial, Summary: p.Plan.counts().json(),
		Destructive: []jsonChange{}, ControlPlanes: []jsonControlPlane{}, Health: []jsonHealth{},
		Readiness: []jsonScore{}, Deferred: lines(p.Plan.Deferred), Others: []jsonChange{},
	}
	switch {
	case p.Err != nil:
		out.Status, out.Error = "unreadable", problem.Line(p.Err.Error())
	case p.Plan.Errored:
		out.Status = "errored"
	}
	for _, d := range p.Plan.destructive() {
		out.Destructive = append(out.Destructive, jsonChange{problem.Line(d.address), jsonAction(d.action)})
	}
	whole := p.Plan.whole()
	for _, plane := range p.Plan.ControlPlanes {
		out.ControlPlanes = append(out.ControlPlanes, plane.json(whole))
	}
	for _, check := range p.Plan.HealthChecks {
		out.Health = append(out.Health, jsonHealth{problem.Line(check.Address), check.Healthy, lines(check.Issues)})
	}
	for _, s := range p.Plan.Scores {
		score := jsonScore{Address: problem.Line(s.Address), Score: s.Score, Total: s.Total, Items: []Item{}}
		for _, i := range s.Open {
			score.Items = append(score.Items, Item{
				problem.Line(i.Status), problem.Line(i.Title), problem.Line(i.Evidence), i.Accepted,
			})
		}
		out.Readiness = append(out.Readiness, score)
	}
	for _, o := range p.Plan.Others {
		out.Others = append(out.Others, jsonChange{problem.Line(o.Address), jsonAction(o.Action)})
	}
	return out
}

// jsonAction returns an action in one or a few words, whatever is first.
func jsonAction(a Action) string {
	switch {
	case a == CreateFirst:
		return string(Replace)
	case a.forsakes():
		return "create and forget"
	case a == Unknown:
		return "unknown"
	}
	return string(a)
}

func (p ControlPlane) json(whole ControlPlane) jsonControlPlane {
	out := jsonControlPlane{
		Module: problem.Line(p.Module), Findings: []jsonFinding{}, Steps: []jsonStep{}, Availability: []string{},
	}
	for _, f := range p.findings() {
		finding := jsonFinding{problem.Line(f.machine), f.part, problem.Line(f.intro + f.text)}
		out.Findings = append(out.Findings, finding)
	}
	for _, s := range p.steps() {
		step := jsonStep{Title: s.title, Changes: []jsonItem{}}
		for _, i := range s.items {
			step.Changes = append(step.Changes, jsonItem{problem.Line(i.name), problem.Line(i.text)})
		}
		out.Steps = append(out.Steps, step)
	}
	if len(out.Steps) > 0 {
		out.Availability = append(out.Availability, p.availability(whole)...)
	}
	return out
}

// lines returns texts as visible lines. The list is never null.
func lines(texts []string) []string {
	out := []string{}
	for _, text := range texts {
		out = append(out, problem.Line(text))
	}
	return out
}
