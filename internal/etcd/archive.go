package etcd

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// DefaultArchivesKept is how many archives of data directories stay on a machine
// where a spec says nothing.
const DefaultArchivesKept = 5

// lastSnapshot is the name of the snapshot that the last member leaves in its
// archive. What has one stays longer than other archives.
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

// archiveVars are what archive.sh works on.
func archiveVars(dataDir, member string, kept int) map[string]string {
	return map[string]string{"data": dataDir, "member": member, "kept": strconv.Itoa(kept)}
}

// dataScript puts the content of the data directory away, or removes it. The
// directory itself may be a mount point, so it is emptied rather than moved.
func (a action) dataScript() host.Script {
	if a.Wipe {
		return archiveFunctions + "wipe\n"
	}
	return archiveFunctions + "archive\n"
}

// settleScript finishes what was put away of an earlier member, so that the
// snapshot of the last one is not put beside its data.
func (a action) settleScript() host.Script {
	if a.Member == "" {
		return ""
	}
	return archiveFunctions + "settle\n"
}

// archiveAction is the action that puts the data of s away, or wipes it.
func (s Spec) archiveAction(v verb, keep bool) action {
	return action{Verb: v, DataDir: s.dataDir(), Member: s.Name, Keep: s.archivesKept(), Wipe: s.OnDestroy == Wipe && !keep}
}

var archiveLine = regexp.MustCompile(`(?m)^archive (/[A-Za-z0-9._/-]+/([a-z0-9-]+)-\d{8}T\d{6}Z)$`)

// archivedAs reads which archive archive.sh says that it has made of a member; ""
// where it has made none.
func archivedAs(output, member string) string {
	for _, line := range archiveLine.FindAllStringSubmatch(output, -1) {
		if line[2] == member {
			return line[1]
		}
	}
	return ""
}

// archiveRoot is the directory beside the data directory: for archives where it
// is on the same file system, and for snapshots.
func archiveRoot(dataDir string) string { return dataDir + "-archive" }

// archiveInside is the directory for archives where archiveRoot is on another
// file system.
func archiveInside(dataDir string) string { return dataDir + "/archive" }

// partOf is the archive of a member while it is made.
func partOf(root, member string) string { return root + "/" + member + ".part" }

// placeQuestion asks where the archives of a data directory are.
const placeQuestion = "if beside; then echo beside; else echo inside; fi\n"

// lastPlace is where the last snapshot of the member goes: into its archive, which
// is on the file system of the data. It is refused where there is no room for a
// database of so many bytes, and for what etcd itself needs beside it.
func (cl *cluster) lastPlace(ctx context.Context, s Spec, size int64) (dir string, err error) {
	facts, err := cl.machine(s.Host).Observe(ctx, host.Query{
		Disks:  []string{s.dataDir(), archiveRoot(s.dataDir())},
		Script: archiveFunctions + placeQuestion,
		Vars:   archiveVars(s.dataDir(), s.Name, 0),
	})
	if err != nil {
		return "", fmt.Errorf("look for room for the last snapshot of %s: %w", s.label(), err)
	}
	var root, disk string
	switch strings.TrimSpace(facts.Output) {
	case "beside":
		root, disk = archiveRoot(s.dataDir()), archiveRoot(s.dataDir())
	case "inside":
		root, disk = archiveInside(s.dataDir()), s.dataDir()
	default:
		return "", fmt.Errorf("the machine does not tell on which file system %s is", s.dataDir())
	}
	if err := roomFor(size, facts.DiskFree[disk]); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	return partOf(root, s.Name), nil
}
