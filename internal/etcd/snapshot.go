package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DefaultSnapshotsKept is the number of upgrade snapshots kept on a machine when the spec
// sets none.
const DefaultSnapshotsKept = 3

// snapshotReserve is the space in bytes that must stay free next to a snapshot: etcd
// preallocates its next two log segments, of 64 MB each, and exits if it cannot.
const snapshotReserve = 128 << 20

// Snapshot is a file that etcd saved and that was verified: its own digest and the
// structure of its database.
type Snapshot struct {
	Host     string // "cp1 (10.0.0.11)"
	Path     string
	Size     int64 // bytes
	Revision int64 // of the newest key in it
	Keys     int
}

// String returns the location, size and revision.
func (s Snapshot) String() string {
	return fmt.Sprintf("%s on %s (%s, revision %d)", s.Path, s.Host, membership.Bytes(s.Size), s.Revision)
}

// upgradesDir returns the directory of upgrade snapshots. It is in the archive, so a
// destroy leaves them in place.
func upgradesDir(dataDir string) string { return archiveRoot(dataDir) + "/upgrades" }

// snapshotTime is the prefix of each snapshot's name: sorting by name sorts by age.
const snapshotTime = "20060102T150405Z"

var snapshotLabel = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)

// upgradeLabel returns the label of the snapshot before an upgrade of etcd.
func upgradeLabel(from, to string) string { return "etcd-" + from + "-to-" + to }

// savedBefore returns the snapshots on a machine that were saved at the beginning of an
// upgrade to a version, newest first.
func savedBefore(f observed, dataDir, to string) []string {
	dir := upgradesDir(dataDir)
	var all []string
	for _, name := range f.facts.Dirs[dir] {
		if isSaved(name) && strings.HasSuffix(name, "-to-"+to+".db") {
			all = append(all, path.Join(dir, name))
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// SaveSnapshot saves a verified snapshot on the machine of one healthy member that the
// provider manages. It is for callers that change something that depends on etcd. The
// label becomes part of the snapshot's name.
func (c *Clusters) SaveSnapshot(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, label string) (Snapshot, error) {
	cl := c.named(b.ClusterID)
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return Snapshot{}, err
	}
	defer clients.Close()
	v, err := clients.View(ctx, hostAddresses(hosts))
	if err != nil {
		return Snapshot{}, notSaved(err)
	}
	var errs []error
	at := map[string]*host.Host{}
	for _, h := range hosts {
		at[h.Address()] = h
	}
	for _, m := range v.Members { // sorted, so that the same machine is chosen each time and deletes the oldest ones
		h, known := at[m.Address()]
		if !known || !m.Healthy || m.Learner {
			continue
		}
		saved, err := cl.save(ctx, saving{machine: cl.machine(h), cluster: b.ClusterID, member: m, label: label})
		if err == nil || ctx.Err() != nil {
			return saved, err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no healthy member is on a known machine"))
	}
	return Snapshot{}, notSaved(errors.Join(errs...))
}

// saving describes one snapshot that is about to be saved.
type saving struct {
	machine machine
	cluster string            // cluster ID
	member  membership.Member // on that machine, healthy
	label   string
}

// save saves a snapshot on one machine, with the tools and the certificate of its member,
// and keeps the newest ones with this label.
func (cl *cluster) save(ctx context.Context, s saving) (Snapshot, error) {
	who := membership.Label(s.member.Name, s.machine.Address())
	if !snapshotLabel.MatchString(s.label) {
		return Snapshot{}, fmt.Errorf("snapshot label %q has characters other than lower-case letters, digits, dots and dashes", s.label)
	}
	program, m, err := s.identify(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%s: %w", who, err)
	}
	dir := upgradesDir(program.dataDir)
	facts, err := s.machine.Observe(ctx, host.Query{Disks: []string{dir}})
	if err != nil {
		return Snapshot{}, fmt.Errorf("%s: %w", who, err)
	}
	if err := roomFor(s.member.DBSize, facts.DiskFree[dir]); err != nil {
		return Snapshot{}, fmt.Errorf("%s: %s: %w", who, dir, err)
	}
	a := action{
		Verb: doSnapshot, Archive: dir, File: time.Now().UTC().Format(snapshotTime) + "-" + s.label + ".db",
		Address: s.machine.Address(), Tools: program.tools, Keep: m.snapshotsKept(),
	}
	saved, err := cl.snapshot(ctx, s.machine, who, a)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%s: %w", who, err)
	}
	problem.Progress(ctx, "etcd: saved and verified snapshot %s", saved)
	return saved, nil
}

// snapshot runs the action and parses its output.
func (cl *cluster) snapshot(ctx context.Context, on machine, who string, a action) (Snapshot, error) {
	applied, err := on.Change(ctx, host.Change{}, a)
	if err != nil {
		return Snapshot{}, err
	}
	saved, err := readSnapshot(applied.Output)
	if err != nil {
		return Snapshot{}, err
	}
	saved.Host, saved.Path = who, path.Join(a.Archive, a.File)
	return saved, nil
}

// identify verifies that the machine has the member, and returns its installation.
func (s saving) identify(ctx context.Context) (installation, record, error) {
	facts, err := s.machine.Observe(ctx, host.Query{Contents: []string{unitPath, recordPath}})
	if err != nil {
		return installation{}, record{}, err
	}
	m, err := readRecord(facts.Files[recordPath].Content)
	if err != nil || m.ClusterID != s.cluster {
		return installation{}, record{}, fmt.Errorf("%s does not identify a member of this cluster on the machine", recordPath)
	}
	at, err := installationIn(facts.Files[unitPath].Content)
	return at, *m, err
}

// roomFor returns an error if a snapshot of a database does not fit into the free space of
// a file system. If the machine does not report the free space, it returns nil, and
// etcdctl fails if there is too little.
func roomFor(size, free int64) error {
	if need := size + snapshotReserve; free > 0 && free < need {
		return fmt.Errorf("not enough space: the database size is %s; with the %s that etcd itself needs, the snapshot requires %s, but %s are free",
			membership.Bytes(size), membership.Bytes(snapshotReserve), membership.Bytes(need), membership.Bytes(free))
	}
	return nil
}

// readSnapshot parses the output of snapshotScript: the size, followed by the output of
// "etcdutl snapshot status".
func readSnapshot(output string) (Snapshot, error) {
	first, rest, _ := strings.Cut(output, "\n")
	var s Snapshot
	if _, err := fmt.Sscanf(first, "size %d", &s.Size); err != nil {
		return Snapshot{}, fmt.Errorf("read the size of the snapshot in %s: %w", problem.Quote(first), err)
	}
	status := struct {
		Revision int64 `json:"revision"`
		Keys     int   `json:"totalKey"`
	}{Revision: -1}
	if err := json.Unmarshal([]byte(rest), &status); err != nil {
		return Snapshot{}, fmt.Errorf("read the status of the snapshot: %w", err)
	}
	if s.Size < 0 || status.Keys < 0 || status.Revision < 0 {
		return Snapshot{}, fmt.Errorf("the status of the snapshot contains no revision: %s", problem.Quote(rest))
	}
	s.Revision, s.Keys = status.Revision, status.Keys
	return s, nil
}

func notSaved(err error) error {
	return &problem.Problem{
		Summary: "etcd snapshot not saved", Cause: err.Error(), Err: err, Unchanged: problem.Nothing,
		Next: "recover the members and their machines, or free space on them, depending on the cause; then apply again",
	}
}
