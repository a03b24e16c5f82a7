package machine

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// logHead returns the beginning of a write-ahead log that etcd's own code has made.
func logHead(tb testing.TB, member, cluster uint64) []byte {
	tb.Helper()
	metadata, err := (&etcdserverpb.Metadata{NodeID: member, ClusterID: cluster}).Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(tb.TempDir(), "wal")
	w, err := wal.Create(zap.NewNop(), dir, metadata)
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) != 1 {
		tb.Fatalf("%v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		tb.Fatal(err)
	}
	return text[:512]
}

func TestReadArchived(t *testing.T) {
	const member, cluster = 0x8e9e05c52164694d, 0xcdf818194e3a8c32
	head := logHead(t, member, cluster)
	output := func(head []byte) string {
		return "archived data\narchived beside\narchived log " + base64.StdEncoding.EncodeToString(head) + "\nother line\n"
	}
	a := ReadArchived(output(head))
	if !a.There || !a.Beside || a.Links || a.Err != nil || a.ID != (ID{Member: member, Cluster: cluster}) {
		t.Errorf("read as %+v", a)
	}
	damaged := append([]byte(nil), head...)
	at := strings.Index(string(head), "\x08\xcd") // the member's ID
	damaged[at+3] ^= 1
	for name, c := range map[string]struct{ output, want string }{
		"nothing":   {"", "no write-ahead log"},
		"damaged":   {output(damaged), "checksum"},
		"cut off":   {output(head[:20]), "does not begin as one of etcd"},
		"zeros":     {output(make([]byte, 512)), "does not begin as one of etcd"},
		"no base64": {"archived log ???\n", "could not be read"},
		"endless":   {output([]byte("\xff\xff\xff\xff\xff\xff\xff\xff" + strings.Repeat("x", 80))), "does not begin"},
	} {
		if a := ReadArchived(c.output); a.Err == nil || !strings.Contains(a.Err.Error(), c.want) || a.ID != (ID{}) {
			t.Errorf("%s: %+v, want %q", name, a, c.want)
		}
	}
	if a := ReadArchived("archived links\n"); !a.Links || a.There {
		t.Errorf("read as %+v", a)
	}
}

// FuzzReadArchived verifies that whatever a machine says of an archive names a member, or says why not.
func FuzzReadArchived(f *testing.F) {
	f.Add("archived log " + base64.StdEncoding.EncodeToString(logHead(f, 1, 2)) + "\n")
	f.Add("archived data\narchived log AAAA\n")
	f.Fuzz(func(t *testing.T, output string) {
		a := ReadArchived(output)
		if (a.Err == nil) != (a.ID.Member != 0 && a.ID.Cluster != 0) {
			t.Errorf("%q is read as %+v", output, a)
		}
	})
}
