package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	wantedVoters = 3
	wantedQuota  = 8 << 30 // the largest quota that etcd recommends
	fullAt       = 0.8
	// fastFsync is etcd's own limit for a disk that is fast enough: "p99 of
	// wal_fsync_duration_seconds should be less than 10ms" (etcd.io, FAQ).
	fastFsync = 10 * time.Millisecond
)

func judgeVoters(e Evidence) verdict {
	v := e.Etcd
	switch words := fmt.Sprintf("%d voters, %d of them healthy", v.Voters, v.Healthy); {
	case v.Unread != "":
		return unknown("%s", v.Unread)
	case v.Voters < wantedVoters:
		return fail("%s: no failure is tolerated", words)
	case v.Healthy < v.Voters:
		return warn("%s", words)
	case v.Voters%2 == 0:
		return warn("%s: an even number tolerates no more failures than one voter fewer", words)
	default:
		return pass("%s", words)
	}
}

func judgeDisk(e Evidence) verdict {
	return everyMember(e, func(m Member) verdict {
		place, own := m.place()
		if own.status == Fail || own.status == Unknown {
			return own
		}
		switch latency := fmt.Sprintf("99 %% of its fsyncs take up to %s", m.Fsync); {
		case m.FsyncUnread != "":
			return unknown("%s; the fsync latency is unknown: %s", place, m.FsyncUnread)
		case m.Fsyncs == 0:
			return unknown("%s; no fsync has been measured yet", place)
		case m.Fsync <= fastFsync:
			return verdict{own.status, place + "; " + latency}
		case own.status == Warn:
			return fail("%s; %s", place, latency)
		default:
			return verdict{worse(own.status, Warn), place + "; " + latency}
		}
	})
}

// place describes where the data of a member is. A disk has one queue, so a partition of the disk
// that others write to is no disk of its own, and neither is a file on it.
func (m Member) place() (words string, own verdict) {
	loops := func(device string) bool { return strings.HasPrefix(device, "loop") }
	devices := strings.Join(m.Devices, ", ")
	switch {
	case m.Disk == "":
		return "", unknown("the file system of its data could not be determined")
	case m.Volume != "" && m.Volume != m.Disk:
		return "", fail("its data is at %s, and not on its volume, which should be mounted at %s", m.Disk, m.Volume)
	case m.Memory:
		return "", fail("its data is on an in-memory file system, %s: it is lost when the machine stops", m.Disk)
	case !m.OwnDisk:
		return "its data is on the root file system", warn("")
	case len(m.Devices) == 0:
		return fmt.Sprintf("its data is on a file system of its own, %s, whose disk does not show", m.Disk), notShown("")
	case len(m.Sharing) > 0:
		return fmt.Sprintf("its data is on a file system of its own, %s, but the disk %s is shared with %s", m.Disk,
			devices, strings.Join(m.Sharing, ", ")), warn("")
	case slices.ContainsFunc(m.Devices, loops):
		return fmt.Sprintf("its data is on a file system of its own, %s, in a file of another one (%s)", m.Disk,
			devices), warn("")
	}
	if m.Volume == m.Disk {
		return fmt.Sprintf("its data is on a disk of its own that moves with it, %s at %s", devices, m.Disk), pass("")
	}
	return fmt.Sprintf("its data is on a disk of its own, %s at %s", devices, m.Disk), pass("")
}

func judgeQuota(e Evidence) verdict {
	return everyMember(e, func(m Member) verdict {
		switch {
		case m.Quota < 0:
			return warn("no quota is set")
		case m.Quota == 0 || m.DBSize == 0:
			return unknown("its quota or database size is unknown")
		}
		share := float64(m.DBSize) / float64(m.Quota)
		words := fmt.Sprintf("%.0f %% of %.1f GiB used", share*100, float64(m.Quota)/(1<<30))
		switch {
		case share >= fullAt:
			return fail("%s", words)
		case m.Quota < wantedQuota:
			return warn("%s", words)
		}
		return pass("%s", words)
	})
}
