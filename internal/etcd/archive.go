package etcd

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

// lastSnapshot is the file name of the snapshot that the last member leaves in its
// archive. An archive with such a snapshot is kept longer than others.
const lastSnapshot = "snapshot.db"

func (s Spec) archivesKept() int {
	if s.ArchivesKept == 0 {
		return DefaultArchivesKept
	}
	return s.ArchivesKept
}

func (c configured) archivesKept() int { return Spec{ArchivesKept: c.ArchivesKept}.archivesKept() }

//go:embed archive.sh
var archiveFunctions host.Script

// archiveVars returns the variables of archive.sh.
func archiveVars(dataDir, member string, kept int) map[string]string {
	return map[string]string{"data": dataDir, "member": member, "kept": strconv.Itoa(kept)}
}

// dataScript archives the content of the data directory, or removes it. The directory
// itself may be a mount point, so it is emptied rather than moved.
func (a action) dataScript() host.Script {
	if a.Wipe {
		return archiveFunctions + "wipe\n"
	}
	return archiveFunctions + "archive\n"
}

// settleScript completes the archive of an earlier member, so that the last snapshot is
// not stored next to that member's data.
func (a action) settleScript() host.Script {
	if a.Member == "" { // a snapshot beside the archives
		return ""
	}
	return archiveFunctions + "settle\n"
}

// archiveAction returns the action that archives or wipes the data of s.
func (s Spec) archiveAction(v verb, keep bool) action {
	return action{Verb: v, DataDir: s.dataDir(), Member: s.Name, Keep: s.archivesKept(), Wipe: s.OnDestroy == Wipe && !keep}
}

var archiveLine = regexp.MustCompile(`(?m)^archive (/[A-Za-z0-9._/-]+/([a-z0-9-]+)-\d{8}T\d{6}Z)$`)

// archivedAs parses the output of archive.sh and returns the archive that it made of a
// member, or "" if it made none.
func archivedAs(output, member string) string {
	for _, line := range archiveLine.FindAllStringSubmatch(output, -1) {
		if line[2] == member {
			return line[1]
		}
	}
	return ""
}

// partOf returns the path of a member's archive while it is being made.
func partOf(root, member string) string { return root + "/" + member + ".part" }

// placeQuestion is the script that reports where the archives of a data directory are.
const placeQuestion = "if beside; then echo beside; else echo inside; fi\n"

// lastPlace returns the directory for the last snapshot of the member: its archive, which
// is on the file system of the data. It returns an error if there is no room for a
// database of size bytes and for the space that etcd itself needs.
func (cl *cluster) lastPlace(ctx context.Context, s Spec, size int64) (dir string, err error) {
	facts, err := cl.machine(s.Host).Observe(ctx, host.Query{
		Disks:  []string{s.dataDir(), layout.ArchiveRoot(s.dataDir())},
		Script: archiveFunctions + placeQuestion,
		Vars:   archiveVars(s.dataDir(), s.Name, 0),
	})
	if err != nil {
		return "", fmt.Errorf("check the free space for the final snapshot of %s: %w", s.label(), err)
	}
	var root, disk string
	switch strings.TrimSpace(facts.Output) {
	case "beside":
		root, disk = layout.ArchiveRoot(s.dataDir()), layout.ArchiveRoot(s.dataDir())
	case "inside":
		root, disk = layout.ArchiveInside(s.dataDir()), s.dataDir()
	default:
		return "", fmt.Errorf("the machine does not report the file system of %s", s.dataDir())
	}
	if err := snapshot.RequireSpace(size, facts.DiskFree[disk]); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	return partOf(root, s.Name), nil
}
