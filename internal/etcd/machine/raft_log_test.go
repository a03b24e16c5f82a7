package machine

import (
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// raftLog returns the answer to raftLogQuestion about a log that etcd's own package has written.
func raftLog(t testing.TB, write func(*wal.WAL) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "wal")
	log, err := wal.Create(zap.NewNop(), dir, []byte("the ID of the member and of its cluster"))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(log); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return "raft-log\t" + base64.StdEncoding.EncodeToString(content[:16384]) + "\n"
}

func TestEmptyRaftLog(t *testing.T) {
	entry := []raftpb.Entry{{Term: 1, Index: 1, Type: raftpb.EntryConfChange, Data: []byte("a voter")}}
	empty := raftLog(t, func(*wal.WAL) error { return nil })
	voted := raftLog(t, func(log *wal.WAL) error { return log.Save(raftpb.HardState{Term: 3, Vote: 7}, nil) })
	full := raftLog(t, func(log *wal.WAL) error { return log.Save(raftpb.HardState{Term: 1}, entry) })
	snapshot := raftLog(t, func(log *wal.WAL) error {
		return log.SaveSnapshot(walpb.Snapshot{Index: 8, Term: 2, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	})
	torn := binary.LittleEndian.AppendUint64(nil, 24)
	torn = append(torn, make([]byte, 512)...)
	for name, test := range map[string]struct {
		output string
		want   bool
	}{
		"not asked":             {"", false},
		"empty":                 {"x\n" + empty + "y\n", true},
		"a vote":                {voted, true},
		"an entry":              {full, false},
		"a snapshot":            {snapshot, false},
		"no base64":             {"raft-log\t$(reboot)\n", false},
		"nothing written":       {"raft-log\t\n", false},
		"a record of zeros":     {"raft-log\t" + base64.StdEncoding.EncodeToString(torn) + "\n", false},
		"the beginning is full": {empty[:len("raft-log\t")+40] + "\n", false},
	} {
		if got := emptyRaftLog(test.output); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// FuzzEmptyRaftLog verifies that a log that etcd reads entries from never counts as empty.
func FuzzEmptyRaftLog(f *testing.F) {
	content := func(output string) []byte {
		text, err := base64.StdEncoding.DecodeString(output[len("raft-log\t") : len(output)-1])
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	f.Add(content(raftLog(f, func(*wal.WAL) error { return nil })))
	f.Add(content(raftLog(f, func(log *wal.WAL) error {
		return log.Save(raftpb.HardState{Term: 1}, []raftpb.Entry{{Term: 1, Index: 1}})
	})))
	f.Fuzz(func(t *testing.T, log []byte) {
		if !noEntries(log) {
			return
		}
		name := filepath.Join(t.TempDir(), "0000000000000000-0000000000000000.wal")
		if err := os.WriteFile(name, log, 0o600); err != nil {
			t.Fatal(err)
		}
		reader, err := wal.OpenForRead(zap.NewNop(), filepath.Dir(name), walpb.Snapshot{})
		if err != nil {
			return
		}
		defer reader.Close()
		if _, _, entries, _ := reader.ReadAll(); len(entries) > 0 {
			t.Errorf("%d entries", len(entries))
		}
	})
}
