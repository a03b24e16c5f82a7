package pki

import (
	"strings"
	"testing"
	"time"
)

// TestDeletionProtection: it is on unless the text says otherwise, it is part of the text, and
// turning it off leaves everything else unchanged, including sealed keys.
func TestDeletionProtection(t *testing.T) {
	b, err := Generate(Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !b.DeletionProtected() || strings.Contains(text, "deletion_protection") {
		t.Errorf("a new bundle is not protected by default: %t", b.DeletionProtected())
	}
	off, err := SetDeletionProtection(text, false)
	if err != nil {
		t.Fatal(err)
	}
	deletable, err := Parse(off, nil)
	if err != nil {
		t.Fatal(err)
	}
	if deletable.DeletionProtected() {
		t.Error("protection is still on")
	}
	if !b.Same(deletable, Parts()...) {
		t.Error("the bundle's parts differ")
	}
	if again, err := deletable.Encode(nil); err != nil || again != off {
		t.Errorf("Encode gives another text than SetDeletionProtection: %v", err)
	}
	rotated, err := deletable.Rotate(map[Part]int{EtcdPart: 1}, Next{}, Options{Now: time.Now()})
	if err != nil || rotated.DeletionProtected() {
		t.Errorf("a rotation changes the protection: %v", err)
	}
	on, err := SetDeletionProtection(off, true)
	if err != nil || on != text {
		t.Errorf("protection taken off and put on again gives another text: %v", err)
	}
	if _, err := SetDeletionProtection("{", false); err == nil {
		t.Error("a text that is no bundle was changed")
	}
	if !(*Bundle)(nil).DeletionProtected() {
		t.Error("an unknown bundle is not protected")
	}
}

// TestRename: another name leaves the cluster's ID and everything else unchanged.
func TestRename(t *testing.T) {
	b, err := Generate(Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := Rename(text, "prod-eu")
	if err != nil {
		t.Fatal(err)
	}
	renamed, err := Parse(changed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if renamed.ClusterName != "prod-eu" || !b.Same(renamed, Parts()...) || !b.Renamed(renamed) || b.Renamed(b) ||
		(*Bundle)(nil).Renamed(b) {
		t.Errorf("renamed to %s; the parts are the same: %t", renamed, b.Same(renamed, Parts()...))
	}
	other := *renamed
	if other.ClusterID = NewClusterID(); b.Renamed(&other) {
		t.Error("another cluster counts as renamed")
	}
	if back, err := Rename(changed, "prod"); err != nil || back != text {
		t.Errorf("renamed back it has another text: %v", err)
	}
	for _, name := range []string{"", "a b", "-"} {
		if _, err := Rename(text, name); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
}
