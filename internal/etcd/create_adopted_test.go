package etcd

import (
	"errors"
	"strings"
	"testing"
)

// TestAdoptedMemberIsNotTainted verifies that a Create that adopts a serving member, and
// fails to bring it to its spec, does not mark it as half created, so that it is not
// destroyed.
func TestAdoptedMemberIsNotTainted(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp3", false) // no other one may be restarted now
	f.clusters = f.coordinator()
	s := specs["cp1"]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	_, err := f.clusters.Create(f.context(), s)
	if !errors.Is(err, ErrAdopted) || !strings.Contains(err.Error(), "lose quorum") {
		t.Errorf("create of a member that serves: %v", err)
	}
	if f.machine("cp1").starts != 1 {
		t.Errorf("it was started %d times", f.machine("cp1").starts)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")

	f.machine("cp3").broken = true
	f.clusters.of(s).pace.StallTimeout = 0
	if _, err := f.clusters.Create(f.context(), specs["cp3"]); !errors.Is(err, ErrAdopted) {
		t.Errorf("create of an established member that does not start: %v", err)
	}
	f.wipe("cp3") // a new one that does not start is half created
	f.machine("cp3").broken = true
	if _, err := f.clusters.Create(f.context(), specs["cp3"]); err == nil || errors.Is(err, ErrAdopted) {
		t.Errorf("create of a member that does not start: %v", err)
	}
}
