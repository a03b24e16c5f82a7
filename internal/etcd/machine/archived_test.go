package machine

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
	if !a.There || !a.SameDisk || a.Links || a.Err != nil || a.ID != (ID{Member: member, Cluster: cluster}) {
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

// TestTakeUpScript runs what looks at an archived data directory and what takes it up, also after it was cut off.
func TestTakeUpScript(t *testing.T) {
	d := newDisk(t)
	if err := os.RemoveAll(filepath.Join(d.data, "member")); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(filepath.Dir(d.data), "archive")
	script := func(what host.Script) string {
		t.Helper()
		out, err := exec.Command("sh", "-euc", string("chown() { :; }\narchived="+host.Words(archive)+"\n"+
			host.Assignments(archiveVars(d.data, "cp1", 3))+ArchiveFunctions+what), "kube").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if a := ReadArchived(script(archivedQuestion)); a.There {
		t.Errorf("nothing is read as %+v", a)
	}
	wal := filepath.Join(archive, "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"0.tmp": nil, "b.wal": logHead(t, 3, 4), "a.wal": logHead(t, 1, 2)} {
		if err := os.WriteFile(filepath.Join(wal, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := ReadArchived(script(archivedQuestion))
	if !a.There || !a.SameDisk || a.Links || a.ID != (ID{Member: 1, Cluster: 2}) {
		t.Errorf("read as %+v", a)
	}
	link := filepath.Join(wal, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	if a := ReadArchived(script(archivedQuestion)); !a.Links {
		t.Errorf("with a link, it is read as %+v", a)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	elsewhere := "mount -t tmpfs none \"$data\"\n" + archivedQuestion
	out, err := exec.Command("unshare", "--mount", "sh", "-euc", string("archived="+host.Words(archive)+"\n"+
		host.Assignments(archiveVars(d.data, "cp1", 3))+ArchiveFunctions+elsewhere), "kube").CombinedOutput()
	if a := ReadArchived(string(out)); err != nil || !a.There || a.SameDisk {
		t.Errorf("on another file system, it is read as %+v: %v, %s", a, err, out)
	}
	for range 2 {
		script(archivedTakeUp)
		if got := list(t, filepath.Join(d.data, "member")); got != "wal/0.tmp wal/a.wal wal/b.wal" {
			t.Errorf("the member has %s", got)
		}
	}
	if _, err := os.Stat(archive); err == nil {
		t.Error("the empty archive is still there")
	}
}
