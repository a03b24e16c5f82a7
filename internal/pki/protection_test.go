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
