package machine

import (
	"encoding/base64"
	"reflect"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap/snappb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// snapFile returns a file of the directory member/snap, as etcd writes it.
func snapFile(t testing.TB, index uint64, members raftpb.ConfState) string {
	t.Helper()
	inner := raftpb.Snapshot{
		Data:     []byte(`{"Root":{"Path":"/"}}`),
		Metadata: raftpb.SnapshotMetadata{ConfState: members, Index: index, Term: 4},
	}
	data, err := inner.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&snappb.Snapshot{Crc: 7, Data: data}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

func TestReadRaftSnapshot(t *testing.T) {
	members := raftpb.ConfState{Voters: []uint64{1, 0xd48658287d7d4650, 3}, Learners: []uint64{9}}
	for name, test := range map[string]struct {
		output string
		want   RaftSnapshot
		fails  bool
	}{
		"not asked": {"", RaftSnapshot{}, false},
		"none":      {"raft-snapshot\tnone\n", RaftSnapshot{Reported: true}, false},
		"one": {
			"raft-snapshot\t" + snapFile(t, 5982, members) + "\n", RaftSnapshot{
				Reported: true, Exists: true, Index: 5982,
				Members: membership.Configuration{Voters: members.Voters, Learners: members.Learners},
			}, false,
		},
		"no base64": {"raft-snapshot\t$(reboot)\n", RaftSnapshot{}, true},
		"cut off": {
			"raft-snapshot\t" + snapFile(t, 1, members)[:20] + "\n", RaftSnapshot{Reported: true, Exists: true}, true,
		},
	} {
		got, err := ReadRaftSnapshot(test.output)
		if (err != nil) != test.fails || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func FuzzReadRaftSnapshot(f *testing.F) {
	f.Add("raft-snapshot\t" + snapFile(f, 1, raftpb.ConfState{Voters: []uint64{1, 2}}) + "\n")
	f.Fuzz(func(_ *testing.T, output string) { _, _ = ReadRaftSnapshot(output) })
}
