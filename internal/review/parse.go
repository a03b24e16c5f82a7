package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Parse reads a plan as "terraform show -json" prints it.
func Parse(text []byte) (Plan, error) {
	var read tfjson.Plan
	if err := json.Unmarshal(text, &read); err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	var failed struct {
		Errored bool `json:"errored"` // since Terraform 1.8; the library does not read it
	}
	if err := json.Unmarshal(text, &failed); err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan := Plan{Errored: failed.Errored, Partial: read.Complete != nil && !*read.Complete && !failed.Errored}
	planes := planes{}
	for _, r := range read.ResourceChanges {
		if err := plan.add(planes, r); err != nil {
			return Plan{}, err
		}
	}
	for _, r := range read.ResourceDrift {
		if r.Change != nil && r.Change.Actions.Delete() {
			planes.gone(r)
		}
	}
	plan.Planes = planes.sorted()
	if err := plan.addData(read); err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// add takes one resource of the plan in.
func (p *Plan) add(planes planes, r *tfjson.ResourceChange) error {
	if r.Change == nil || r.Mode != tfjson.ManagedResourceMode {
		return nil
	}
	action := actionOf(r.Change)
	if !ours(r) {
		if action != Keep {
			p.Elsewhere = append(p.Elsewhere, Elsewhere{r.Address, action})
		}
		return nil
	}
	return planes.add(r, action)
}

// ours says whether a resource is this provider's, wherever it was installed from.
func ours(r *tfjson.ResourceChange) bool {
	return strings.HasPrefix(r.Type, "kube_") && strings.HasSuffix(r.ProviderName, "/kubequorum/kube")
}

func actionOf(c *tfjson.Change) Action {
	switch {
	case c.Actions.CreateBeforeDestroy():
		return CreateFirst
	case c.Actions.DestroyBeforeCreate():
		return Replace
	case c.Actions.Create():
		return Create
	case c.Actions.Delete():
		return Delete
	case c.Actions.Update():
		return Update
	case c.Actions.Forget():
		return Forget
	case c.Importing != nil:
		return Import
	}
	return Keep
}

// addData takes the answers of data sources in. Terraform keeps those that were
// read for the plan in the prior state, and those of check blocks there too.
func (p *Plan) addData(read tfjson.Plan) error {
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
			if r.Mode != tfjson.DataResourceMode {
				continue
			}
			if err := p.addAnswer(r); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(p.Checks, func(a, b Check) int { return strings.Compare(a.Address, b.Address) })
	return nil
}

func (p *Plan) addAnswer(r *tfjson.StateResource) error {
	if r.Type != "kube_production_readiness" && r.Type != "kube_control_plane" || !strings.HasSuffix(r.ProviderName, "/kubequorum/kube") {
		return nil
	}
	var marks any
	if len(r.SensitiveValues) > 0 {
		if err := json.Unmarshal(r.SensitiveValues, &marks); err != nil {
			return fmt.Errorf("read %s: %w", r.Address, errShape)
		}
	}
	answer, err := decode[struct {
		Score   *float64 `json:"score"`
		Total   *float64 `json:"total"`
		Healthy *bool    `json:"healthy"`
		Issues  []string `json:"issues"`
	}](r.Address, any(r.AttributeValues), marks)
	if err != nil {
		return err
	}
	if r.Type == "kube_control_plane" {
		p.Checks = append(p.Checks, Check{r.Address, answer.Healthy, answer.Issues})
	} else if answer.Score != nil && answer.Total != nil {
		p.Score = &Score{*answer.Score, *answer.Total}
	}
	return nil
}
