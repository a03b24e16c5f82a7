package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	tfjson "github.com/hashicorp/terraform-json"
)

// Parse reads a plan in the format of "terraform show -json".
func Parse(text []byte) (Plan, error) {
	var read tfjson.Plan
	if err := json.Unmarshal(text, &read); err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	var more struct {
		Errored bool   `json:"errored"` // since Terraform 1.8; the library does not read it
		Time    string `json:"timestamp"`
	}
	if err := json.Unmarshal(text, &more); err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan := Plan{
		Errored: more.Errored, Partial: read.Complete != nil && !*read.Complete && !more.Errored,
		scrutiny: scrutinize(text),
	}
	if at, err := time.Parse(time.RFC3339, more.Time); err == nil {
		plan.Time = at
	}
	planes := controlPlanes{}
	for _, r := range read.ResourceChanges {
		if err := plan.add(planes, r); err != nil {
			return Plan{}, err
		}
	}
	for _, r := range read.ResourceDrift {
		if r.Change != nil && r.Change.Actions.Delete() {
			planes.markMissing(r)
		}
	}
	for _, a := range read.ActionInvocations {
		plan.Invoked = append(plan.Invoked, a.Address)
	}
	plan.ControlPlanes = planes.sorted()
	plan.number()
	if err := plan.addData(read); err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// add adds one resource of the plan.
func (p *Plan) add(planes controlPlanes, r *tfjson.ResourceChange) error {
	if r.Change == nil || r.Mode != tfjson.ManagedResourceMode {
		return nil
	}
	action := actionOf(r.Change)
	if !isProviderResource(r) {
		if action != Keep {
			p.Others = append(p.Others, OtherResource{r.Address, action})
		}
		return nil
	}
	return planes.add(r, action)
}

// isProviderResource reports whether a resource belongs to this provider, from any registry.
func isProviderResource(r *tfjson.ResourceChange) bool {
	return strings.HasPrefix(r.Type, "kube_") && strings.HasSuffix(r.ProviderName, "/kubequorum/kube")
}

// actionOf never takes a change for none: only reading, and doing nothing, are.
func actionOf(c *tfjson.Change) Action {
	switch {
	case slices.Equal(c.Actions, tfjson.Actions{tfjson.ActionForget, tfjson.ActionCreate}):
		return ForgetFirst
	case slices.Equal(c.Actions, tfjson.Actions{tfjson.ActionCreate, tfjson.ActionForget}):
		return ForgetLast
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
	case len(c.Actions) > 0 && !c.Actions.NoOp() && !c.Actions.Read():
		return Unknown
	case c.Importing != nil:
		return Import
	}
	return Keep
}
