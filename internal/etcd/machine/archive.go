// Package machine is one etcd member on its machine: what is wanted there, what is
// observed, how the two differ, and the change that brings the machine to what is wanted.
// It knows the cluster only as the view that a caller passes.
package machine

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// DefaultArchivesKept is the number of archives of data directories kept on a machine when
// the spec sets none.
const DefaultArchivesKept = 5

// LastSnapshot is the file name of the snapshot that the last member leaves in its
// archive. An archive with such a snapshot is kept longer than others.
const LastSnapshot = "snapshot.db"

func (s Spec) archives() int {
	if s.ArchivesKept == 0 {
		return DefaultArchivesKept
	}
	return s.ArchivesKept
}

func (c configured) archivesKept() int {
	return Spec{ArchivesKept: c.ArchivesKept}.archives()
}

// ArchiveFunctions are the shell functions that move a data directory away.
var ArchiveFunctions = snapshot.OwnFunctions + archiveScript

//go:embed archive.sh
var archiveScript host.Script

// archiveVars returns the variables of archive.sh.
func archiveVars(dataDir, member string, kept int) map[string]string {
	return map[string]string{"data": dataDir, "member": member, "kept": strconv.Itoa(kept)}
}

// dataScript archives the content of the data directory, or removes it. The directory
// itself may be a mount point, so it is emptied rather than moved.
func (a Action) dataScript() host.Script {
	if a.Wipe {
		return ArchiveFunctions + "wipe\n"
	}
	return ArchiveFunctions + "archive\n"
}

// settleScript completes the archive of an earlier member, so that the last snapshot is
// not stored next to that member's data.
func (a Action) settleScript() host.Script {
	if a.Member == "" { // a snapshot beside the archives
		return ""
	}
	return ArchiveFunctions + "settle\n"
}

// ArchiveAction returns the action that archives or wipes the data of s.
func (s Spec) ArchiveAction(v Verb, keep bool) Action {
	return Action{Verb: v, DataDir: s.Directory(), Member: s.Name, Keep: s.archives(), Wipe: s.OnDestroy == Wipe && !keep}
}

var archiveLine = regexp.MustCompile(`(?m)^archive (/[A-Za-z0-9._/-]+/([a-z0-9.-]+)-\d{8}T\d{6}Z)$`)

// ArchivedAs parses the output of archive.sh and returns the archive that it made of a
// member, or "" if it made none.
func ArchivedAs(output, member string) string {
	for _, line := range archiveLine.FindAllStringSubmatch(output, -1) {
		if line[2] == member {
			return line[1]
		}
	}
	return ""
}

// PartOf returns the path of a member's archive while it is being made.
func PartOf(root, member string) string { return root + "/" + member + ".part" }

// PlaceQuestion is the script that reports where the archives of a data directory are.
const PlaceQuestion = "if beside; then echo beside; else echo inside; fi\n"

// LastPlace returns the directory for the last snapshot of the member: its archive, which
// is on the file system of the data. It returns an error if there is no room for a
// database of size bytes and for the space that etcd itself needs.
func LastPlace(ctx context.Context, m Machine, s Spec, size int64) (dir string, err error) {
	facts, err := m.Observe(ctx, host.Query{
		Disks:  []string{s.Directory(), layout.ArchiveRoot(s.Directory())},
		Script: ArchiveFunctions + PlaceQuestion,
		Vars:   archiveVars(s.Directory(), s.Name, 0),
	})
	if err != nil {
		return "", fmt.Errorf("check the free space for the final snapshot of %s: %w", s.Label(), err)
	}
	var root, disk string
	switch strings.TrimSpace(facts.Output) {
	case "beside":
		root, disk = layout.ArchiveRoot(s.Directory()), layout.ArchiveRoot(s.Directory())
	case "inside":
		root, disk = layout.ArchiveInside(s.Directory()), s.Directory()
	default:
		return "", fmt.Errorf("the machine does not report the file system of %s", s.Directory())
	}
	if err := snapshot.RequireSpace(size, facts, disk); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	return PartOf(root, s.Name), nil
}

// ArchiveData stops the unit and archives the data. It never wipes data.
func ArchiveData(ctx context.Context, m Machine, s Spec) error {
	if _, err := m.Change(ctx, host.Change{}, s.ArchiveAction(Retire, true)); err != nil {
		return fmt.Errorf("archive the data of %s: %w", s.Label(), err)
	}
	return nil
}
