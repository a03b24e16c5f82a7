package machine

import (
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed raft_log.sh
var raftLogScript host.Script

// raftLogQuestion is the question whose answer emptyRaftLog reads.
func (s Spec) raftLogQuestion() host.Script {
	return raftLogScript.WithoutComments() + "raft_log " + host.Words(layout.EnvPath, s.Directory()) + "\n"
}

// emptyRaftLog reports whether the output of the question proves that the raft log has no entry. A member with such a
// log has acknowledged nothing. etcd leaves one behind if the power is cut after the log is created and before its
// first entries are flushed; it then starts without any voter, and waits for ever.
func emptyRaftLog(output string) bool {
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "raft-log\t"); ok {
			content, err := base64.StdEncoding.DecodeString(text)
			return err == nil && noEntries(content)
		}
	}
	return false
}

// The types of the records in a raft log (etcd's storage/wal), and the fields of walpb.Record and walpb.Snapshot.
const (
	recordMetadata = 1
	recordState    = 3
	recordCRC      = 4
	recordSnapshot = 5

	fieldRecordType    = 1
	fieldRecordData    = 3
	fieldSnapshotIndex = 1
)

// noEntries reports whether a log, of which content is the beginning, ends in content and has no entry. A record that
// cannot be read may be an entry.
func noEntries(content []byte) bool {
	const header = 8
	for len(content) >= header {
		length := binary.LittleEndian.Uint64(content)
		if length == 0 {
			return true // what follows is allocated, and not written
		}
		size := length & (1<<56 - 1)
		padding := uint64(0)
		if length>>63 == 1 {
			padding = length >> 56 & 7
		}
		content = content[header:]
		if size+padding > uint64(len(content)) || !noEntry(content[:size]) {
			return false
		}
		content = content[size+padding:]
	}
	return false
}

// noEntry reports whether a record is neither an entry nor a snapshot in place of entries.
func noEntry(record []byte) bool {
	var kind, index uint64
	var data []byte
	err := eachField(record, func(number protowire.Number, value []byte, n uint64) {
		switch number {
		case fieldRecordType:
			kind = n
		case fieldRecordData:
			data = value
		}
	})
	switch {
	case err != nil:
		return false
	case kind == recordSnapshot:
		err = eachField(data, func(number protowire.Number, _ []byte, n uint64) {
			if number == fieldSnapshotIndex {
				index = n
			}
		})
		return err == nil && index == 0
	}
	return kind == recordMetadata || kind == recordState || kind == recordCRC
}
