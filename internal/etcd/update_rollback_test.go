package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestUnstartedChangeRollsBack gives all members a flag with which etcd does not start. The first one returns to its
// former unit, and the others are not touched.
func TestUnstartedChangeRollsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.impatient()
	f.clusters.pace.StallTimeout = 15 * time.Second
	changed, before := map[string]Spec{}, map[string]string{}
	for name, s := range specs {
		s.ExtraArgs = map[string]string{"max-txn-ops": "777"}
		m := f.machine(name)
		changed[name], before[name], m.breaks = s, string(m.files[layout.UnitPath].Content), "777"
	}
	rolledBack := ""
	for name, err := range together(t, changed, func(s Spec) error {
		_, err := f.clusters.Update(f.context(), s)
		return err
	}, "cp1", "cp2", "cp3") {
		var p *problem.Problem
		if !errors.As(err, &p) {
			t.Fatalf("%s: %v", name, err)
		}
		switch {
		case p.Summary == "etcd member not changed, and rolled back" && rolledBack == "":
			rolledBack = name
			if !strings.Contains(p.Unchanged, name+" serves again as before") || f.machine(name).starts < 3 {
				t.Errorf("%s: %v, after %d starts", name, err, f.machine(name).starts)
			}
		case !problem.Untouched(err) || !strings.Contains(p.Cause, "did not serve after a change") ||
			f.machine(name).starts != 1:
			t.Errorf("%s: %v, after %d starts", name, err, f.machine(name).starts)
		}
		if unit := string(f.machine(name).files[layout.UnitPath].Content); unit != before[name] {
			t.Errorf("the unit of %s is not its former one:\n%s", name, unit)
		}
	}
	if rolledBack == "" {
		t.Error("no member was rolled back")
	}
	f.wantNoDrift(specs)
}

// TestUnstartedChangeStays: with the former unit, the member does not serve either.
func TestUnstartedChangeStays(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.specs("cp1")["cp1"]
	f.create(map[string]Spec{"cp1": s}, "cp1")
	f.calm(s)
	f.impatient()
	f.clusters.pace.StallTimeout = 8 * time.Second
	m := f.machine("cp1")
	m.breaks = "ExecStart="
	changed := s
	changed.ExtraArgs = map[string]string{"max-txn-ops": "777"}
	_, err := f.clusters.Update(f.context(), changed)
	for _, want := range []string{"etcd member does not serve", "with the former flags and unit"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
	m.breaks = ""
	if status, err := f.clusters.Update(f.context(), s); err != nil || !status.Healthy {
		t.Errorf("update after the cause was fixed: %+v, %v", status, err)
	}
}

// TestUnstartedAfterCutOff: a run was cut off after it had written the unit, and before the restart. What is there is
// no unit to return to, and the other members are not given the same one.
func TestUnstartedAfterCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.impatient()
	f.clusters.pace.StallTimeout = 8 * time.Second
	changed := map[string]Spec{}
	for name, s := range specs {
		s.ExtraArgs = map[string]string{"max-txn-ops": "777"}
		changed[name] = s
		f.machine(name).breaks = "777"
	}
	unit := f.machine("cp1").files[layout.UnitPath]
	unit.Content = machine.FixedFiles(changed["cp1"].Spec)[0].Content
	f.machine("cp1").files[layout.UnitPath] = unit
	_, err := f.clusters.Update(f.context(), changed["cp1"])
	if err == nil || !strings.Contains(err.Error(), "etcd member does not serve") ||
		strings.Contains(err.Error(), "former flags") {
		t.Errorf("cp1: %v", err)
	}
	starts := f.machine("cp2").starts
	_, err = f.clusters.Update(f.context(), changed["cp2"])
	if !problem.Untouched(err) || !strings.Contains(err.Error(), "did not serve after a change") ||
		f.machine("cp2").starts != starts {
		t.Errorf("cp2: %v", err)
	}
}
