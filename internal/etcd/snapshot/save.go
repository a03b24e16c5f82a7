package snapshot

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DefaultKept is the number of upgrade snapshots kept on a machine when the spec
// sets none.
const DefaultKept = 3

// Reserve is the space in bytes that must stay free next to a snapshot: etcd
// preallocates its next two log segments, of 64 MB each, and exits if it cannot.
const Reserve = 128 << 20

// Save describes how a snapshot of a member that serves is saved on its machine.
type Save struct {
	Dir       string
	File      string // its name in Dir
	ClientURL string
	Tools     string // the directory of etcdctl and etcdutl
	Keep      int    // the number of newest snapshots in Dir to keep; 0: all
	Need      int64  // the space in bytes that must be free in Dir; 0: it was checked
}

// OwnFunctions are the shell functions that tell root's directories from what others have put in their place.
//
//go:embed own.sh
var OwnFunctions host.Script

// SaveScript saves one snapshot and verifies it. It needs OwnFunctions.
//
//go:embed save.sh
var SaveScript host.Script

//go:embed prune.sh
var pruneScript host.Script

// Script saves a verified snapshot. Only then may older ones be deleted. It prints the
// size and the output of "etcdutl snapshot status".
func (s Save) Script() host.Script {
	if s.Keep == 0 {
		return OwnFunctions + SaveScript
	}
	return OwnFunctions + SaveScript + pruneScript
}

// Vars returns the variables of the script.
func (s Save) Vars() map[string]string {
	return map[string]string{
		"tools": s.Tools, "endpoint": s.ClientURL, "pki": layout.PKIDir, "dir": s.Dir, "file": s.File,
		"keep": strconv.Itoa(s.Keep), "need": strconv.FormatInt(s.Need, 10),
	}
}

// Saved is a snapshot that etcd saved and that was verified: its own digest and the
// structure of its database.
type Saved struct {
	Host     string // "cp1 (10.0.0.11)"
	Path     string
	Size     int64 // bytes
	Revision int64 // of the newest key in it
	Keys     int
}

// String returns the location, size and revision.
func (s Saved) String() string {
	return fmt.Sprintf("%s on %s (%s, revision %d)", s.Path, s.Host, membership.Bytes(s.Size), s.Revision)
}

// ReadSaved parses the output of the script of a Save: the size, followed by the output of
// "etcdutl snapshot status".
func ReadSaved(output string) (Saved, error) {
	first, rest, _ := strings.Cut(output, "\n")
	var s Saved
	if _, err := fmt.Sscanf(first, "size %d", &s.Size); err != nil {
		return Saved{}, fmt.Errorf("read the size of the snapshot in %s: %w", problem.Quote(first), err)
	}
	status := struct {
		Revision int64 `json:"revision"`
		Keys     int   `json:"totalKey"`
	}{Revision: -1}
	if err := json.Unmarshal([]byte(rest), &status); err != nil {
		return Saved{}, fmt.Errorf("read the status of the snapshot: %w", err)
	}
	if s.Size < 0 || status.Keys < 0 || status.Revision < 0 {
		return Saved{}, fmt.Errorf("the status of the snapshot contains no revision: %s", problem.Quote(rest))
	}
	s.Revision, s.Keys = status.Revision, status.Keys
	return s, nil
}

// RequireSpace returns an error if a snapshot of a database does not fit into the free space of
// the file system of a path, as facts say. If they do not have the free space, it returns nil, and
// etcdctl fails if there is too little.
func RequireSpace(size int64, facts host.Facts, path string) error {
	free, known := facts.DiskFree[path]
	if need := size + Reserve; known && free < need {
		return fmt.Errorf("not enough space: the database size is %s; with the %s that etcd itself needs, "+
			"the snapshot requires %s, but %s are free",
			membership.Bytes(size), membership.Bytes(Reserve), membership.Bytes(need), membership.Bytes(free))
	}
	return nil
}

// UpgradesDir returns the directory of upgrade snapshots. It is in the archive, so a
// destroy leaves them in place.
func UpgradesDir(dataDir string) string { return layout.ArchiveRoot(dataDir) + "/upgrades" }

// RequestedDir returns the directory of snapshots that are saved on request, and before a change of
// the number of members that the cluster depends on: apart from those of upgrades, so that neither
// removes the other's.
func RequestedDir(dataDir string) string { return layout.ArchiveRoot(dataDir) + "/requested" }

// TimeLayout is the prefix of each snapshot's name: sorting by name sorts by age.
const TimeLayout = "20060102T150405Z"

// savedForm is the form of a snapshot's file name.
var savedForm = regexp.MustCompile(`^\d{8}T\d{6}Z-[a-z0-9][a-z0-9.-]{0,99}\.db$`)

var labelForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)

// ValidateLabel accepts what becomes part of a snapshot's file name.
func ValidateLabel(label string) error {
	if !labelForm.MatchString(label) {
		return fmt.Errorf("snapshot label %q has characters other than lower-case letters, digits, dots and dashes", label)
	}
	return nil
}

// UpgradeLabel returns the label of the snapshot before an upgrade of etcd.
func UpgradeLabel(from, to string) string { return "etcd-" + from + "-to-" + to }

// SavedBefore returns the newest snapshot on a machine that was saved before an upgrade of
// etcd from and to these versions, or "".
func SavedBefore(facts host.Facts, dataDir, from, to string) string {
	dir := UpgradesDir(dataDir)
	newest := ""
	for _, name := range facts.Dirs[dir] {
		if savedForm.MatchString(name) && name[len(TimeLayout):] == "-"+UpgradeLabel(from, to)+".db" {
			newest = max(newest, path.Join(dir, name))
		}
	}
	return newest
}
