package machine

import (
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed raft_snapshot.sh
var raftSnapshotScript host.Script

// RaftSnapshotQuery queries the newest snapshot of the raft log in a data directory: where a member begins when it
// starts.
func RaftSnapshotQuery(dataDir string) host.Query {
	return host.Query{Script: raftSnapshotScript.WithoutComments(), Vars: map[string]string{"data": dataDir}}
}

// RaftSnapshot is the newest snapshot of the raft log on a machine.
type RaftSnapshot struct {
	Reported bool // the machine was asked
	Exists   bool
	Index    uint64
	Members  membership.Configuration
}

var errRaftSnapshot = errors.New("the newest snapshot of the raft log cannot be read")

// ReadRaftSnapshot parses the output of RaftSnapshotQuery.
func ReadRaftSnapshot(output string) (RaftSnapshot, error) {
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "raft-snapshot\t")
		if !ok {
			continue
		}
		if text == "none" {
			return RaftSnapshot{Reported: true}, nil
		}
		content, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return RaftSnapshot{}, fmt.Errorf("%w: %w", errRaftSnapshot, err)
		}
		s, err := parseRaftSnapshot(content)
		s.Reported, s.Exists = true, true
		return s, err
	}
	return RaftSnapshot{}, nil
}

// The numbers of the fields that are read, of snappb.Snapshot, raftpb.Snapshot, SnapshotMetadata and ConfState.
const (
	fieldData      = 2
	fieldMetadata  = 2
	fieldConfState = 1
	fieldIndex     = 2
	fieldVoters    = 1
	fieldLearners  = 2
)

// parseRaftSnapshot parses a file of the directory member/snap.
func parseRaftSnapshot(content []byte) (RaftSnapshot, error) {
	var s RaftSnapshot
	var snapshot, metadata, members []byte
	err := errors.Join(
		eachField(content, func(number protowire.Number, value []byte, _ uint64) {
			if number == fieldData {
				snapshot = value
			}
		}),
		eachField(snapshot, func(number protowire.Number, value []byte, _ uint64) {
			if number == fieldMetadata {
				metadata = value
			}
		}))
	if err != nil {
		return s, err
	}
	err = eachField(metadata, func(number protowire.Number, value []byte, n uint64) {
		switch number {
		case fieldConfState:
			members = value
		case fieldIndex:
			s.Index = n
		}
	})
	if err != nil {
		return s, err
	}
	err = eachField(members, func(number protowire.Number, _ []byte, n uint64) {
		switch number {
		case fieldVoters:
			s.Members.Voters = append(s.Members.Voters, n)
		case fieldLearners:
			s.Members.Learners = append(s.Members.Learners, n)
		}
	})
	return s, err
}

// eachField calls f for the fields of a message: with their bytes, or with their number.
func eachField(message []byte, f func(number protowire.Number, value []byte, n uint64)) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return fmt.Errorf("%w: %w", errRaftSnapshot, protowire.ParseError(size))
		}
		message = message[size:]
		var value []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return fmt.Errorf("%w: %w", errRaftSnapshot, protowire.ParseError(size))
		}
		f(number, value, n)
		message = message[size:]
	}
	return nil
}
