package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// TestPreviewFile describes a snapshot that etcd has saved, and copies of it that are damaged.
func TestPreviewFile(t *testing.T) {
	t.Parallel()
	f := newLostFleet(t)
	saved := f.machine("cp1").at(f.snapshot)
	good, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	f.empty(trio...)
	f.request(machine.Restore{ID: "one", File: saved})
	plan, err := f.coordinator().PreviewRestore(f.context(), f.specs["cp1"])
	// The snapshot was saved after three writes, of revisions 2 to 4.
	if err != nil || !strings.Contains(plan, ", up to revision 4.") || strings.Contains(plan, "refused, because it") {
		t.Errorf("the plan is %s, %v", plan, err)
	}

	hashed := func(database []byte) []byte {
		sum := sha256.Sum256(database)
		return append(append([]byte(nil), database...), sum[:]...)
	}
	database := good[:len(good)-sha256.Size]
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	cases := map[string][]byte{
		"is corrupt: its SHA-256": flipped, "is incomplete": good[:len(good)-1], "has no integrity hash": database,
		"it is damaged": hashed(make([]byte, len(database))),
	}
	// With a hash that fits, but with pages that are missing or refer to others.
	for at := 0; at+4096 <= len(database); at += 4096 {
		hostile := append([]byte(nil), database...)
		for i := range 512 {
			hostile[at+16+i] = 0xff
		}
		file := filepath.Join(t.TempDir(), "hostile.db")
		if err := os.WriteFile(file, hashed(hostile), 0o600); err != nil {
			t.Fatal(err)
		}
		previewFile(t.Context(), file) // whatever it says, it ends
	}
	for want, content := range cases {
		file := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Join(previewFile(t.Context(), file), "\n")
		if !strings.Contains(lines, "The apply will be refused, because it") || !strings.Contains(lines, want) ||
			strings.Contains(lines, "up to revision") {
			t.Errorf("%s: %s", want, lines)
		}
	}
	if lines := previewFile(t.Context(), saved+".none"); !strings.Contains(lines[0], "cannot be read now") {
		t.Errorf("a file that is not there: %v", lines)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	file, err := snapshot.ReadLocal(ended, saved, machine.SnapshotLimit)
	if err != nil || !errors.Is(file.Err, snapshot.ErrTooLarge) {
		t.Errorf("without time: %+v, %v", file, err)
	}
}

func TestSurplus(t *testing.T) {
	survivors := []survivor{{Name: "cp2", Err: errors.New("silent")}, {Name: "cp3", Revision: 40}}
	for _, c := range []struct {
		member   string
		revision int64
		want     string
	}{
		{"cp3", 30, "10 of its revisions, up to 40."},
		{"cp3", 40, "has nothing that the snapshot lacks"},
		{"cp3", 50, "has a later revision than member cp3 (40)"},
		{"cp3", 0, "has data up to its revision 40"},
		{"cp2", 30, "does not answer"},
		{"cp1", 30, "does not answer"},
	} {
		if got := surplus(c.member, survivors, c.revision); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
