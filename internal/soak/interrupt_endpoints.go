package soak

import (
	"context"
	"errors"
	"fmt"
)

// interruptEndpointScenarios interrupt the operations of a control plane with each kind of endpoint.
func interruptEndpointScenarios() []Scenario {
	var all []Scenario
	for _, k := range endpointKinds() {
		all = append(all, Scenario{Name: "interrupt endpoint: " + k.name, Run: k.interrupt})
	}
	return all
}

// change is the override of the example by which settings of the endpoint change.
func (k endpointKind) change() string {
	return "module \"control_plane\" {\n  endpoint = " + k.changed + "\n}\n"
}

// interrupt creates a control plane of two, makes three of them, changes settings of the endpoint, replaces a replica,
// goes back to two, and destroys it. Each operation is cut at its own points.
func (k endpointKind) interrupt(ctx context.Context, e *Env) ([]Result, error) {
	here := *e
	here.Dir = k.dir(e)
	config, err := k.config(here.Dir)
	if err != nil {
		return nil, err
	}
	var around *surroundings
	defer func() { around.forget(ctx) }()
	s := &sweep{env: &here, config: config}
	s.surround = func(ctx context.Context) (map[string]any, error) {
		around.forget(ctx)
		var err error
		if around, err = k.surround(ctx, &here, machineNames); err != nil {
			return nil, err
		}
		return around.variables, nil
	}
	s.more = func(ctx context.Context, used fleet) error { return k.reached(ctx, around, used) }
	if k.vacated != nil {
		s.vacated = func(ctx context.Context) error { return k.vacated(ctx, around) }
	}
	err = s.begin(ctx)
	if errors.Is(err, errNoKubeVIP) {
		return []Result{skippedResult("interrupted: "+k.row("create"), err)}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.run(ctx,
		e.track(operation{name: k.row("create"), machines: 2}),
		e.track(operation{name: k.row("scale up"), machines: 3}),
		e.track(operation{name: k.row("change"), machines: 3, override: k.change()}),
		e.track(operation{
			name: k.row("replace"), machines: 3, override: k.change(),
			once: []string{fmt.Sprintf("-replace=module.control_plane.kube_control_plane_replica.this[%q]", machineNames[1])},
		}),
		e.track(operation{name: k.row("scale down"), machines: 2, override: k.change(), afterHealthInterval: true}),
		e.track(operation{name: k.row("destroy"), afterHealthInterval: true}),
	)
}
