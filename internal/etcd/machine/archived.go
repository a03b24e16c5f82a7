package machine

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ArchivedData is what a machine has of a data directory that was moved aside.
type ArchivedData struct {
	There    bool // there is data of a member
	SameDisk bool // it is on the file system of the data directory: it can be renamed
	Links    bool // there are symbolic links in it
	ID       ID   // whose data it is, by its write-ahead log
	Err      error
}

//go:embed archived_question.sh
var archivedQuestion host.Script

//go:embed archived_take_up.sh
var archivedTakeUp host.Script

// ArchivedAt observes the archived data directory of s.
func ArchivedAt(ctx context.Context, m Machine, s Spec) (ArchivedData, error) {
	vars := archiveVars(s.Directory(), s.Name, s.archives())
	vars["archived"] = s.ArchivedDataDir
	facts, err := m.Observe(ctx, host.Query{Script: ArchiveFunctions + archivedQuestion, Vars: vars})
	if err != nil {
		return ArchivedData{}, fmt.Errorf("look at %s on %s: %w", s.ArchivedDataDir, s.Label(), err)
	}
	return ReadArchived(facts.Output), nil
}

// ReadArchived parses the output of archived_question.sh. Lines of another form are ignored.
func ReadArchived(output string) ArchivedData {
	a := ArchivedData{Err: errors.New("it has no write-ahead log")}
	for line := range strings.Lines(output) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "archived":
			a.There = a.There || words[1] == "data"
			a.SameDisk = a.SameDisk || words[1] == "beside"
			a.Links = a.Links || words[1] == "links"
		case len(words) == 3 && words[0] == "archived" && words[1] == "log":
			head, err := base64.StdEncoding.DecodeString(words[2])
			if err != nil {
				a.Err = errors.New("its write-ahead log could not be read completely")
				continue
			}
			a.ID, a.Err = logID(head)
		}
	}
	return a
}

// The types of records in etcd's write-ahead log (server/storage/wal).
const (
	logMetadata = 1
	logCRC      = 4
)

// logID returns the IDs at the beginning of a file of a write-ahead log: etcd begins each file with a checksum and with
// the IDs of member and cluster. A frame is the length of a record in 56 bits, the length of its padding, both.
func logID(head []byte) (ID, error) {
	errForm := errors.New("its write-ahead log does not begin as one of etcd")
	var sum uint32
	for range 2 {
		if len(head) < 8 {
			return ID{}, errForm
		}
		length := binary.LittleEndian.Uint64(head)
		size, padding := length&(1<<56-1), uint64(0)
		if length>>63 == 1 {
			padding = length >> 56 & 7
		}
		if size > uint64(len(head)) || 8+size+padding > uint64(len(head)) {
			return ID{}, errForm
		}
		fields, ok := readMessage(head[8 : 8+size])
		if !ok {
			return ID{}, errForm
		}
		data := fields.bytes[3]
		switch fields.numbers[1] {
		case logCRC:
			sum = uint32(fields.numbers[2])
		case logMetadata:
			if crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), data) != uint32(fields.numbers[2]) {
				return ID{}, errors.New("the checksum of its write-ahead log is wrong")
			}
			ids, ok := readMessage(data)
			if !ok || ids.numbers[1] == 0 || ids.numbers[2] == 0 {
				return ID{}, errForm
			}
			return ID{Member: ids.numbers[1], Cluster: ids.numbers[2]}, nil
		}
		head = head[8+size+padding:]
	}
	return ID{}, errForm
}

// message has the fields of a protobuf message by their numbers.
type message struct {
	numbers map[uint64]uint64
	bytes   map[uint64][]byte
}

// readMessage decodes a message of numbers and bytes.
func readMessage(b []byte) (message, bool) {
	m := message{numbers: map[uint64]uint64{}, bytes: map[uint64][]byte{}}
	number := func() (uint64, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return 0, false
		}
		b = b[size:]
		return n, true
	}
	for len(b) > 0 {
		key, ok := number()
		if !ok {
			return m, false
		}
		value, ok := number()
		switch {
		case ok && key&7 == 0:
			m.numbers[key>>3] = value
		case ok && key&7 == 2 && value <= uint64(len(b)):
			m.bytes[key>>3], b = b[:value], b[value:]
		default:
			return m, false
		}
	}
	return m, true
}

// TakeUp returns the change that makes the archived data the member's again. The record is there before the data.
func (s Spec) TakeUp(f Observed, id ID) (host.Change, Action) {
	base := baseChange(s)
	base.Links = nil
	base.Dirs = base.Dirs[:2] // the data directory and that of the record
	base.Files = append(s.identityFiles(f, id), recordFile(s.KeepRestored(f), id, nil))
	vars := archiveVars(s.Directory(), s.Name, s.archives())
	vars["archived"] = s.ArchivedDataDir
	return base, Action{Verb: Stop, Timers: host.Assignments(vars) + ArchiveFunctions + archivedTakeUp}
}
