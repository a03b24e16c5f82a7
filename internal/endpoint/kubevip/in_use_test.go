package kubevip

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestInUse: an address that another machine has is given to no target, unless a replica of the endpoint may have it.
func TestInUse(t *testing.T) {
	r := testSpec().Registration()
	replica := endpoint.ReadOwner(r.Record("cp1"))
	at := func(own string) machine {
		return machine{Report: report{Neighbors: neighbors.Answers{Own: []string{"00:00", own}}}}
	}
	asked := at("02:01")
	asked.Report.Neighbors.By = map[string]string{r.Address: "02:0f"}
	with := func(m machine, change func(*machine)) machine { change(&m); return m }
	gone := machine{Err: host.ErrUnreachable}
	for name, c := range map[string]struct {
		cp1, cp2 machine
		want     bool
	}{
		"free":                  {at("02:01"), at("02:02"), false},
		"a stranger":            {asked, at("02:02"), true},
		"a target since":        {asked, at("02:0f"), false},
		"a replica in rotation": {asked, with(at("02:02"), func(m *machine) { m.Report.Registered = true }), false},
		"a replica has it": {asked, with(at("02:02"), func(m *machine) {
			m.Report.Address, m.Owner = true, replica
		}), false},
		"a target has it otherwise":   {at("02:01"), with(at("02:02"), func(m *machine) { m.Report.Address = true }), true},
		"a static pod":                {asked, with(at("02:02"), func(m *machine) { m.Report.Foreign = true }), false},
		"drained":                     {with(asked, func(m *machine) { m.Owner = replica }), at("02:02"), true},
		"drained, another is unknown": {with(asked, func(m *machine) { m.Owner = replica }), gone, false},
		"new, another is unknown":     {asked, gone, true},
		"nobody is known":             {gone, gone, false},
		"another endpoint's replica": {asked, with(at("02:02"), func(m *machine) {
			m.Report.Registered, m.Owner = true, endpoint.Owner{ClusterID: "other", Address: r.Address, Name: "x"}
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]machine{"cp1": c.cp1, "cp2": c.cp2}
			err := inUse(r, maps.Clone(seen))
			if errors.Is(err, errInUse) != c.want {
				t.Errorf("%v", err)
			}
			if err != nil && strings.HasSuffix(err.Error(), "that could be reached") != (c.cp2.Err != nil) {
				t.Errorf("not all targets are known: %v", err)
			}
			if err := inUse(bgpSpec().Registration(), seen); err != nil {
				t.Errorf("announced: %v", err)
			}
		})
	}
}
