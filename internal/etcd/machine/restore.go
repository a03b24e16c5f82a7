package machine

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Restore describes what a cluster that has no quorum any more starts again from. Exactly
// one of Member, Snapshot, File, Bucket and Fetch is set.
type Restore struct {
	ID              string // each ID is restored once
	Member          string // a survivor, whose data is used
	Snapshot        string // a path on a machine
	File            string // a path on the operator's computer
	Bucket          string // a snapshot in the member's bucket, or NewestInBucket
	IdentityFile    string // of age, on the operator's computer, for Bucket; "": none
	Fetch           string // commands that bring the snapshot to a machine
	EnvironmentFile string // on the machine, for Fetch; "": none. Bucket has that of the upload
	Bump            int64  // by how much the revision grows; BumpAutomatically
	AcceptOlder     bool   // use Member even if another survivor may know more
	AcceptOtherCA   bool   // use data of a cluster with other certificates

	// FileID tells the content of File from other content at the same path: see snapshot.FileID. AnyContent stands for
	// that of a file which this computer does not have. It is no part of the configuration.
	FileID string

	// Silent has the members whose machines did not answer when the members' data was archived: address → name. It is no
	// part of the configuration.
	Silent map[string]string
}

// AnyContent is the FileID of a file that is not there: what was staged from its path is used, and nothing else can be.
const AnyContent = "any"

// BumpAutomatically lets the revision grow until it exceeds every one that a client can
// have seen: to the milliseconds since 1970. etcd would have to write a thousand times a
// second to get ahead of them. Each restore therefore exceeds all before it, of whatever
// snapshot, as long as the clocks of the machines agree. A larger step would put the revision
// ahead of the clock, and the next restore behind it. Only a revision that is ahead already
// grows by a thousand million.
const BumpAutomatically = -1

// NewestInBucket is the value of Bucket that stands for the newest verified snapshot.
const NewestInBucket = "newest"

// Source describes where the data comes from, for messages.
func (r Restore) Source() string {
	switch {
	case r.Member != "":
		return "the data of member " + r.Member
	case r.Snapshot != "":
		return "snapshot " + r.Snapshot
	case r.File != "":
		return "snapshot " + r.File + " on this computer"
	case r.Bucket == NewestInBucket:
		return "the newest verified snapshot in the bucket"
	case r.Bucket != "":
		return "snapshot " + r.Bucket + " in the bucket"
	}
	return "the snapshot that the fetch commands bring"
}

// kind returns the kind of the source, for restore_stage.sh.
func (r Restore) kind() string {
	switch {
	case r.Member != "":
		return "member"
	case r.Snapshot != "":
		return "snapshot"
	case r.File != "":
		return "file"
	case r.Bucket != "":
		return "bucket"
	}
	return "fetch"
}

// key identifies what was staged: another source under the same ID is staged again. What has the path Snapshot on a
// machine, what is the newest in a bucket and what Fetch brings may change without another key.
func (r Restore) key() string {
	return Digest([]byte(strings.Join([]string{
		r.ID, r.Member, r.Snapshot, r.File + r.FileID, r.Bucket, r.Fetch, r.EnvironmentFile, strconv.FormatInt(r.Bump, 10),
	}, "\x00")))
}

// source is the key of what was staged for a computer that does not have File.
func (r Restore) source() string {
	if r.File != "" {
		r.FileID = AnyContent
	}
	return r.key()
}

var restoreIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// ValidateRestoreID accepts what the record of a member can contain.
func ValidateRestoreID(id string) error {
	if !restoreIDForm.MatchString(id) {
		return fmt.Errorf("restore id %q is not valid: use at most 64 letters, digits and the characters . _ : -, beginning "+
			"with a letter or digit", id)
	}
	return nil
}

// RestoreFunctions are the shell functions that verify a snapshot, restore it and serve it on
// sockets. See restore_functions.sh for their variables.
//
//go:embed restore_functions.sh
var RestoreFunctions host.Script

//go:embed restore_staged.sh
var stagedFunctions host.Script

//go:embed restore_stage.sh
var stageScript host.Script

//go:embed restore_place.sh
var placeScript host.Script

//go:embed restore_drop.sh
var dropScript host.Script

//go:embed restore_receive.sh
var receiveScript host.Script

// stagingScript returns a script with the functions that scripts about staged data need.
func stagingScript(parts ...host.Script) host.Script {
	script := host.FlushFunction() + runtimeFunctions() + ArchiveFunctions + stagedFunctions
	for _, part := range parts {
		script += part
	}
	return script
}

// Staged is data that etcd has been seen to serve and that is not the member's yet.
type Staged struct {
	Token    string // of the new cluster
	Peer     string // the peer URL of its only member; "": that of the member now
	Size     int64  // of the snapshot, in bytes
	Saved    time.Time
	Revision int64 // of the snapshot
	Bump     int64
	Keys     int64
	Reused   bool // an earlier call of Stage has made it

	CA      []byte   // the ConfigMap with the cluster's root certificate; empty if there is none
	Heads   [][]byte // the beginnings of encrypted values
	Samples [][]byte // some of these values
	Secrets int64    // that were looked at
	Sealed  int64    // those of them that are encrypted

	Unencrypted []string // resources, of those that can be encrypted, with values in the clear
}

// String describes the restored data.
func (s Staged) String() string {
	text := fmt.Sprintf("revision %d, %s, saved %s", s.Revision, membership.Bytes(s.Size),
		s.Saved.UTC().Format(time.RFC3339))
	if s.Reused {
		text += ", made by an earlier apply"
	}
	return text
}

// ID returns the identity of the only member of the restored cluster.
func (s Staged) ID(spec Spec) ID {
	peer := cmp.Or(s.Peer, spec.PeerURL())
	return ID{
		Member:  membership.StaticMemberID(peer, s.Token),
		Cluster: membership.StaticClusterID([]string{peer}, s.Token),
	}
}

// Receive stores the snapshot of a restore, of size bytes, on a machine.
func Receive(ctx context.Context, m Machine, s Spec, content io.Reader, size int64) error {
	vars := archiveVars(s.Directory(), s.Name, s.archives())
	vars["size"], vars["reserve"] = strconv.FormatInt(size, 10), strconv.Itoa(snapshot.Reserve)
	_, err := m.Run(ctx, host.Command{
		Script: ArchiveFunctions + RestoreFunctions + receiveScript, Vars: vars, Stdin: content,
	})
	return err
}

// Stage makes the data of the restored cluster beside the data directory, from which
// nothing is taken away. A member whose data it copies is stopped meanwhile. Data that an
// earlier call has staged is used again once the member's own data is archived. If it is of another source, it is
// kept aside until Place: it may be the last copy in place. identity is a file of age that opens snapshots in a
// bucket; it gets to the machine as the input of a program only.
func Stage(ctx context.Context, m Machine, s Spec, token string, identity []byte) (Staged, error) {
	r := s.Restore
	vars := archiveVars(s.Directory(), s.Name, s.archives())
	bump := "auto"
	if r.Bump != BumpAutomatically {
		bump = strconv.FormatInt(r.Bump, 10)
	}
	for name, value := range map[string]string{
		"kind": r.kind(), "key": r.key(), "source": r.source(), "snapshot": r.Snapshot, "commands": r.Fetch,
		"environment": r.EnvironmentFile,
		"tools":       ArtifactDir(s.Version), "name": s.Name, "peer": s.PeerURL(), "token": token, "bump": bump,
		"quota": strconv.FormatInt(s.Quota(), 10), "reserve": strconv.Itoa(snapshot.Reserve),
	} {
		vars[name] = value
	}
	if r.Bucket != "" {
		name := r.Bucket
		if name == NewestInBucket {
			name = ""
		}
		maps.Copy(vars, s.SnapshotMember().FetchVars(name))
	}
	out, err := m.Run(ctx, host.Command{
		Script: stagingScript(RestoreFunctions, stageScript), Vars: vars, Stdin: bytes.NewReader(identity),
	})
	if err != nil {
		return Staged{}, err
	}
	return ReadStaged(out)
}

// Unstage removes what this call of Stage has made. What an earlier one has made stays.
func Unstage(ctx context.Context, m Machine, s Spec, made Staged) error {
	if made.Reused {
		return nil
	}
	_, err := m.Run(ctx, host.Command{
		Script: stagingScript(dropScript), Vars: archiveVars(s.Directory(), s.Name, s.archives()),
	})
	return err
}

// dropAllScript removes all that restores have staged for the data directory $data.
var dropAllScript = snapshot.OwnFunctions + `for root in "$data-archive" "$data/archive"; do
  owned "$root" || continue
  rm -rf -- "$root/restoring" "$root"/restoring.*
  rmdir "$root" 2>/dev/null || true
done
`

// dropStaged returns the commands that remove what restores have staged for a data directory.
func dropStaged(dataDir string) host.Script {
	return host.Assignments(map[string]string{"data": dataDir}) + dropAllScript
}

// stagedKeys returns the paths of which one is there if a restore has made its data, and has not put it in place: the
// key is the last file of it.
func stagedKeys(dataDir string) []string {
	var keys []string
	for _, root := range archiveRoots(dataDir) {
		keys = append(keys, root+"/restoring/key", root+"/restoring.former/key")
	}
	return keys
}

// staged returns the directory of that data, or "".
func staged(dataDir string, facts host.Facts) string {
	for _, key := range stagedKeys(dataDir) {
		if _, there := facts.Files[key]; there {
			return path.Dir(key)
		}
	}
	return ""
}

// restoringNames are what restores make in an archive root.
var restoringNames = []string{"restoring", "restoring.former", "restoring.received"}

// isRestoring reports whether a name in an archive root is of what a restore makes.
func isRestoring(name string) bool {
	return name == "restoring" || strings.HasPrefix(name, "restoring.")
}

// leftovers returns the path of something that a restore has left, complete or not, or "". That is asked for by the
// names in the directories: a file may be as large as the database, and its digest is not needed.
func leftovers(dataDir string, facts host.Facts) string {
	for _, root := range archiveRoots(dataDir) {
		for _, name := range facts.Dirs[root] {
			if isRestoring(name) {
				return root + "/" + name
			}
		}
	}
	return ""
}

// archiveRoots returns the directories of which restores use one.
func archiveRoots(dataDir string) []string {
	return []string{layout.ArchiveRoot(dataDir), layout.ArchiveInside(dataDir)}
}

// StagedQuestion is the script that prints the keys of what is staged, if that is used again.
const StagedQuestion host.Script = `for staged in "$root/restoring" "$root/restoring.former"; do
  if owned "$root" && [ ! -e "$data/member" ] && [ -d "$staged/member" ] && [ -e "$staged/key" ]; then
    cat "$staged/key"
    echo
    [ ! -e "$staged/source" ] || cat "$staged/source"
    echo
  fi
done
`

// IsStaged reports whether Stage has nothing left to do.
func IsStaged(ctx context.Context, m Machine, s Spec) (bool, error) {
	facts, err := m.Observe(ctx, host.Query{
		Script: ArchiveFunctions + StagedQuestion,
		Vars:   archiveVars(s.Directory(), s.Name, s.archives()),
	})
	return err == nil && slices.Contains(strings.Fields(facts.Output), s.Restore.key()), err
}

// PlaceChange returns the change that makes the staged data the member's. The record is
// there before the data, and nothing can start the member with an empty data directory
// instead: the unit is disabled, and bootstrap.env does not exist.
func PlaceChange(s Spec, id ID) host.Change {
	base := baseChange(s)
	base.Links = nil
	base.Dirs = base.Dirs[:2] // the data directory and that of the record
	base.Files = []host.File{restoringRecord(s, id, nil)}
	return base
}

// PlaceAction returns the action that follows PlaceChange.
func PlaceAction(s Spec) Action {
	return Action{Verb: PlaceRestored, DataDir: s.Directory(), Member: s.Name, Keep: s.archives()}
}

// StartRestoredChange returns the change that starts the member on its data.
func StartRestoredChange(s Spec, f Observed, c Issued, id ID) (change host.Change, timers host.Script) {
	change, timers = NewMemberChange(s, f, c, id, "")
	change.Files = change.Files[:len(change.Files)-2] // without bootstrap.env: there is nothing to form
	change.Files = append(change.Files, restoringRecord(s, id, c.Pairs))
	return change, timers
}

// RestoredChange returns the change that completes a restore.
func RestoredChange(s Spec, id ID, pairs map[string]string) host.Change {
	return host.Change{Files: []host.File{recordFile(s, id, pairs)}, Remove: []string{layout.EnvPath}}
}

// RestoredAction returns the action that follows RestoredChange: what this restore and earlier ones have staged goes.
func RestoredAction(s Spec) Action { return Action{Timers: dropStaged(s.Directory())} }

// longestSample is that of restore_stage.sh, decoded.
const longestSample = 1 << 20

// ReadStaged parses the report of restore_stage.sh.
func ReadStaged(output string) (Staged, error) {
	s := Staged{Size: -1, Revision: -1, Bump: -1, Keys: -1}
	for line := range strings.Lines(output) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := s.set(key, value); err != nil {
			return Staged{}, fmt.Errorf("read what was staged: %s %s: %w", key, problem.Quote(value), err)
		}
	}
	if s.Token == "" || s.Size < 0 || s.Revision < 0 || s.Bump < 0 || s.Keys < 0 || s.Saved.IsZero() {
		return Staged{}, errors.New("read what was staged: the report of the machine is incomplete")
	}
	return s, nil
}

func (s *Staged) set(key, value string) (err error) {
	number := func() (n int64) { n, err = strconv.ParseInt(value, 10, 64); return n }
	numbers := func() (a, b int64) {
		first, second, _ := strings.Cut(value, " ")
		if a, err = strconv.ParseInt(first, 10, 64); err == nil {
			b, err = strconv.ParseInt(second, 10, 64)
		}
		return a, b
	}
	decode := func() (b []byte) {
		if len(value) > longestSample {
			err = errors.New("too long")
			return nil
		}
		b, err = base64.StdEncoding.DecodeString(value)
		return b
	}
	switch key {
	case "token":
		if s.Token = initialToken(value); s.Token == "" {
			return errors.New("not a token")
		}
	case "peer":
		if address := membership.HostInURL(value); host.CheckAddressForm(address) != nil ||
			membership.PeerURL(address) != value {
			return errors.New("not a peer URL")
		}
		s.Peer = value
	case "size":
		s.Size = number()
	case "saved":
		s.Saved = time.Unix(number(), 0)
	case "revision":
		s.Revision = number()
	case "bump":
		s.Bump = number()
	case "keys":
		s.Keys = number()
	case "reused":
		s.Reused = true
	case "ca":
		s.CA = bytes.TrimSuffix(decode(), []byte("\n")) // of etcdctl
	case "head":
		s.Heads = append(s.Heads, decode())
	case "sample":
		s.Samples = append(s.Samples, decode())
	case "unencrypted":
		if value != "secrets" && value != "configmaps" {
			return errors.New("not a resource that can be encrypted")
		}
		s.Unencrypted = append(s.Unencrypted, value)
	case "secrets":
		if s.Secrets, s.Sealed = numbers(); err == nil && (s.Sealed < 0 || s.Sealed > s.Secrets) {
			return errors.New("not two numbers of Secrets")
		}
	}
	return err
}

// RestoreDue reports whether the data of the member may not come from the restore of s yet.
func (f Observed) RestoreDue(s Spec) bool {
	return s.Restore != nil && f.Record != nil && f.Record.Restored != s.RestoreID()
}
