package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// copyTo copies the snapshot of the fleet to a file on this computer.
func (f *lostFleet) copyTo(file string) {
	f.t.Helper()
	text, err := os.ReadFile(f.machine("cp1").at(f.snapshot))
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// preview returns what a plan says.
func (f *lostFleet) preview() string {
	f.t.Helper()
	plan, err := f.coordinator().PreviewRestore(f.context(), f.specs["cp2"])
	if err != nil {
		f.t.Fatal(err)
	}
	return plan
}

// left returns what restores have left on the machines.
func (f *lostFleet) left() (all []string) {
	f.t.Helper()
	for _, name := range trio {
		left, err := filepath.Glob(f.machine(name).at(layout.ArchiveRoot(layout.DefaultDataDir)) + "/restoring*")
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, left...)
	}
	return all
}

// stagedBefore is in the plan of a restore that uses what an earlier apply has staged.
const stagedBefore = "An earlier apply has already made its data on cp1"

// TestStagedForAnotherFile: a restore from a file was cut off when the members' data was archived. The next apply uses
// the data that is there only if the file is the same one, and the plan says so. Nothing of either is left.
func TestStagedForAnotherFile(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	later := filepath.Join(t.TempDir(), "later.db")
	f.copyTo(file)
	f.save("cp1")
	f.copyTo(later)
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", File: file})
	f.cutBeforePlace()
	if plan := f.preview(); !strings.Contains(plan, stagedBefore) {
		t.Errorf("the plan of the same restore is %s", plan)
	}
	if err := os.Rename(later, file); err != nil {
		t.Fatal(err)
	}
	if plan := f.preview(); strings.Contains(plan, stagedBefore) || !strings.Contains(plan, ", up to revision 5.") {
		t.Errorf("the plan with another file is %s", plan)
	}

	// Of a restore on another machine that was given up.
	other := f.machine("cp2").at(layout.ArchiveRoot(layout.DefaultDataDir)) + "/restoring"
	if err := errors.Join(os.MkdirAll(other, 0o700), os.WriteFile(other+"/key", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f.mustUpdate("restore")
	f.serves("restored", "later")
	if left := f.left(); len(left) > 0 {
		t.Errorf("restores have left %q", left)
	}
}

// TestStagedWithoutItsFile: a restore from a file was cut off when the members' data was archived, and the next apply
// is on a computer that does not have the file. The data that is there completes the restore.
func TestStagedWithoutItsFile(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	f.copyTo(file)
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", File: file})
	f.cutBeforePlace()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if plan := f.preview(); !strings.Contains(plan, stagedBefore) {
		t.Errorf("the plan without the file is %s", plan)
	}
	f.request(machine.Restore{ID: "one", File: file + "-other"})
	if plan := f.preview(); strings.Contains(plan, stagedBefore) {
		t.Errorf("the plan of another file is %s", plan)
	}
	f.request(machine.Restore{ID: "one", File: file})
	f.mustUpdate("restore")
	f.serves("restored", "saved")
}

// TestStagedForAnotherAddress: a restore was cut off when the members' data was archived, and the disk with the
// restored data has come to another machine. The member gets the address of that machine.
func TestStagedForAnotherAddress(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	f.cutBeforePlace()
	staged := layout.ArchiveRoot(layout.DefaultDataDir) + "/restoring"
	if err := os.Rename(f.machine("cp1").at(staged), f.machine("cp2").at(staged)); err != nil {
		t.Fatal(err)
	}
	f.mustUpdate("restore")
	f.serves("restored", "saved")
}
