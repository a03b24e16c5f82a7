package machine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

const (
	// minDisk is the free space required on the data directory's file system, in bytes.
	// etcd preallocates two 64 MB log segments, keeps five, and its database grows to some
	// hundred MB even in small clusters.
	minDisk = 1 << 30
)

// Preflight lists everything that would keep a member from working on this machine. It
// runs before the first change.
func Preflight(s Spec, f Observed) []string {
	var problems []string
	if f.Facts.Systemd == "" {
		problems = append(problems, "systemd is not running as PID 1")
	}
	if !slices.Contains([]string{"amd64", "arm64"}, f.Facts.Architecture) {
		problems = append(problems, fmt.Sprintf("architecture %q is not supported: etcd is released for amd64 and arm64",
			f.Facts.Architecture))
	}
	for _, port := range s.ports() {
		l, taken := f.Facts.Listeners[port]
		own := f.Running() && f.Record != nil && (port != MetricsPort || l.Process == layout.Product || l.Process == "")
		if taken && !own {
			problems = append(problems, fmt.Sprintf("port %d is in use by %s", port, cmp.Or(l.Process, "an unknown process")))
		}
	}
	if free, ok := f.Facts.DiskFree[s.Directory()]; ok && free < minDisk && !f.Data {
		problems = append(problems,
			fmt.Sprintf("the file system of %s has %d MiB of free space, at least %d MiB are required", s.Directory(), free>>20,
				minDisk>>20))
	}
	if wrong := f.Facts.ClockProblem(); wrong != "" {
		problems = append(problems, wrong)
	}
	return slices.Concat(problems, s.podProblems(f), s.SnapshotMember().Problems(f.Facts), s.liveness().Problems(f.Facts),
		s.facts().Problems(f.Facts))
}
