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
func (p *Plan) addData(plan tfjson.Plan) error {
	read := map[string]bool{}
	var modules []*tfjson.StateModule
	if plan.PriorState != nil && plan.PriorState.Values != nil {
		modules = append(modules, plan.PriorState.Values.RootModule)
	}
	for i := 0; i < len(modules); i++ {
		if modules[i] == nil {
			continue
		}
		modules = append(modules, modules[i].ChildModules...)
		for _, r := range modules[i].Resources {
			if r.Mode != tfjson.DataResourceMode || !isSource(r.Type, r.ProviderName) {
				continue
			}
			if err := p.addResult(r); err != nil {
				return err
			}
			read[r.Address] = true
		}
	}
	for _, r := range plan.ResourceChanges {
		reported := r.Mode == tfjson.DataResourceMode && isSource(r.Type, r.ProviderName)
		if reported && r.Change != nil && r.Change.Actions.Read() && !read[r.Address] {
			p.Deferred = append(p.Deferred, r.Address)
		}
	}
	slices.Sort(p.Deferred)
	slices.SortFunc(p.HealthChecks, func(a, b HealthCheck) int { return strings.Compare(a.Address, b.Address) })
	slices.SortFunc(p.Scores, func(a, b Score) int { return strings.Compare(a.Address, b.Address) })
	return nil
}

func isSource(kind, provider string) bool {
	return slices.Contains(sources, kind) && strings.HasSuffix(provider, "/kubequorum/kube")
}

func (p *Plan) addResult(r *tfjson.StateResource) error {
	var marks any
	if len(r.SensitiveValues) > 0 {
		if err := json.Unmarshal(r.SensitiveValues, &marks); err != nil {
			return fmt.Errorf("read %s: %w", r.Address, errShape)
		}
	}
	if r.Type == "kube_control_plane" {
		status, err := decode[controlPlaneStatus](r.Address, any(r.AttributeValues), marks)
		if err != nil {
			return err
		}
		p.HealthChecks = append(p.HealthChecks, HealthCheck{r.Address, status.Healthy, status.Issues})
		p.addHealth(status)
		return nil
	}
	readiness, err := decode[struct {
		Score *float64 `json:"score"`
		Total *float64 `json:"total"`
		Items []Item   `json:"items"`
	}](r.Address, any(r.AttributeValues), marks)
	if err == nil && readiness.Score != nil && readiness.Total != nil {
		p.Scores = append(p.Scores, Score{r.Address, *readiness.Score, *readiness.Total, openItems(readiness.Items)})
	}
	return err
}

// openItems returns the items that did not pass, the worst first.
func openItems(items []Item) []Item {
	order := []string{"fail", "unknown", "warn"}
	left := slices.DeleteFunc(items, func(i Item) bool { return !slices.Contains(order, i.Status) })
	slices.SortStableFunc(left, func(a, b Item) int {
		return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
	})
	return left
}

// covered reports whether a finding already covers an issue.
func (p Plan) covered(issue string) bool {
	for _, plane := range p.ControlPlanes {
		// The issues of an unreachable machine's components follow from that.
		for address := range plane.Unreached {
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
func (p ControlPlane) about(issue, machine string) bool {
	for address := range p.Unreached {
		if p.machineAt(address) == machine && strings.HasPrefix(issue, "machine "+address+" with ") {
			return true
		}
	}
	return strings.Contains(issue, " "+machine+" ")
}

// uncovered returns the issues of a health check that no finding covers.
func (p Plan) uncovered(c HealthCheck) []string {
	return slices.DeleteFunc(slices.Clone(c.Issues), p.covered)
}
