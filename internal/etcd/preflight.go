package etcd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// minDisk is the free space required on the data directory's file system, in bytes.
	// etcd preallocates two 64 MB log segments, keeps five, and its database grows to some
	// hundred MB even in small clusters.
	minDisk = 1 << 30
	// maxClockOffset keeps any two machines within four minutes of each other:
	// certificates are valid from five minutes before they are issued.
	maxClockOffset = 2 * time.Minute
)

// preflight lists everything that would keep a member from working on this machine. It
// runs before the first change.
func preflight(s Spec, f observed) []string {
	var faults []string
	if f.facts.Systemd == "" {
		faults = append(faults, "systemd is not running as PID 1")
	}
	if !slices.Contains([]string{"amd64", "arm64"}, f.facts.Architecture) {
		faults = append(faults, fmt.Sprintf("architecture %q is not supported: etcd is released for amd64 and arm64", f.facts.Architecture))
	}
	for _, port := range ports {
		if l, taken := f.facts.Listeners[port]; taken && (!f.running() || f.Record == nil) {
			faults = append(faults, fmt.Sprintf("port %d is in use by %s", port, cmp.Or(l.Process, "an unknown process")))
		}
	}
	if free, ok := f.facts.DiskFree[s.dataDir()]; ok && free < minDisk && !f.Data {
		faults = append(faults, fmt.Sprintf("the file system of %s has %d MiB of free space, at least %d MiB are required", s.dataDir(), free>>20, minDisk>>20))
	}
	if offset := f.facts.ClockOffset; offset.Abs() > maxClockOffset+f.facts.ClockError {
		faults = append(faults, fmt.Sprintf("the clock is off by %s: at most %s is allowed, otherwise other machines may reject certificates as not yet valid", offset.Round(time.Second), maxClockOffset))
	}
	return slices.Concat(faults, unlisted(s), s.snapshotMember().Problems(f.facts))
}

// unlisted checks the spec itself: the machine must be among the peers.
func unlisted(s Spec) []string {
	addresses := map[string]string{}
	for name, peer := range s.Peers {
		addresses[name] = peer.Address()
	}
	if err := ValidatePeers(s.Name, s.Host.Address(), addresses); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// requirePreflight returns one problem that lists every failed check of a machine, or nil.
func requirePreflight(s Spec, f observed) error {
	faults := preflight(s, f)
	if len(faults) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "Machine is not suitable for an etcd member",
		Host:      s.label(),
		Cause:     strings.Join(faults, "; "),
		Unchanged: problem.Nothing,
		Next:      "fix this on the machine and apply again",
	}
}
