package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// sources are the data sources that a comment reports on.
var sources = []string{"kube_production_readiness", "kube_control_plane"}

// addData adds the results of data sources. Terraform keeps the results that were read for the
// plan in the prior state, including those of check blocks. It defers a data source that
// depends on a change to the apply.
func (p *Plan) addData(read tfjson.Plan) error {
	answered := map[string]bool{}
	var modules []*tfjson.StateModule
	if read.PriorState != nil && read.PriorState.Values != nil {
		modules = append(modules, read.PriorState.Values.RootModule)
	}
	for i := 0; i < len(modules); i++ {
		if modules[i] == nil {
			continue
		}
		modules = append(modules, modules[i].ChildModules...)
		for _, r := range modules[i].Resources {
			if r.Mode != tfjson.DataResourceMode || !source(r.Type, r.ProviderName) {
				continue
			}
			if err := p.addAnswer(r); err != nil {
				return err
			}
			answered[r.Address] = true
		}
	}
	for _, r := range read.ResourceChanges {
		if r.Mode == tfjson.DataResourceMode && source(r.Type, r.ProviderName) && r.Change != nil && r.Change.Actions.Read() && !answered[r.Address] {
			p.Waiting = append(p.Waiting, r.Address)
		}
	}
	slices.Sort(p.Waiting)
	slices.SortFunc(p.Checks, func(a, b Check) int { return strings.Compare(a.Address, b.Address) })
	slices.SortFunc(p.Scores, func(a, b Score) int { return strings.Compare(a.Address, b.Address) })
	return nil
}

func source(kind, provider string) bool {
	return slices.Contains(sources, kind) && strings.HasSuffix(provider, "/kubequorum/kube")
}

func (p *Plan) addAnswer(r *tfjson.StateResource) error {
	var marks any
	if len(r.SensitiveValues) > 0 {
		if err := json.Unmarshal(r.SensitiveValues, &marks); err != nil {
			return fmt.Errorf("read %s: %w", r.Address, errShape)
		}
	}
	if r.Type == "kube_control_plane" {
		told, err := decode[answer](r.Address, any(r.AttributeValues), marks)
		if err != nil {
			return err
		}
		p.Checks = append(p.Checks, Check{r.Address, told.Healthy, told.Issues})
		p.addHealth(told)
		return nil
	}
	told, err := decode[struct {
		Score *float64 `json:"score"`
		Total *float64 `json:"total"`
		Items []Item   `json:"items"`
	}](r.Address, any(r.AttributeValues), marks)
	if err == nil && told.Score != nil && told.Total != nil {
		p.Scores = append(p.Scores, Score{r.Address, *told.Score, *told.Total, open(told.Items)})
	}
	return err
}

// open returns the items that did not pass, the worst first.
func open(items []Item) []Item {
	order := []string{"fail", "unknown", "warn"}
	left := slices.DeleteFunc(items, func(i Item) bool { return !slices.Contains(order, i.Status) })
	slices.SortStableFunc(left, func(a, b Item) int {
		return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
	})
	return left
}

// told reports whether a finding already covers an issue.
func (p Plan) told(issue string) bool {
	for _, plane := range p.Planes {
		for address := range plane.Unreached { // issues of an unreachable machine's components follow from that
			if strings.Contains(issue, "("+address+")") {
				return true
			}
		}
		for _, f := range plane.findings() {
			if f.text != "" && plane.about(issue, f.machine) && strings.HasSuffix(issue, f.text) {
				return true
			}
		}
	}
	return false
}

// about reports whether an issue names a machine by its name or its address.
func (p Plane) about(issue, machine string) bool {
	for address := range p.Unreached {
		if p.machineAt(address) == machine && strings.HasPrefix(issue, "machine "+address+" with ") {
			return true
		}
	}
	return strings.Contains(issue, " "+machine+" ")
}

// untold returns the issues of c that no finding covers.
func (p Plan) untold(c Check) []string {
	return slices.DeleteFunc(slices.Clone(c.Issues), p.told)
}
