package readiness

import (
	"fmt"
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
		place := "its data is on the root file system"
		if m.OwnDisk {
			place = "its data is on a separate file system, " + m.Disk
		}
		if m.Disk == "" {
			return unknown("the file system of its data could not be determined")
		}
		if m.Memory {
			return fail("its data is on an in-memory file system, %s: it is lost when the machine stops", m.Disk)
		}
		switch latency := fmt.Sprintf("99 %% of its fsyncs take up to %s", m.Fsync); {
		case m.FsyncUnread != "":
			return unknown("%s; the fsync latency is unknown: %s", place, m.FsyncUnread)
		case m.Fsyncs == 0:
			return unknown("%s; no fsync has been measured yet", place)
		case m.OwnDisk && m.Fsync <= fastFsync:
			return pass("%s; %s", place, latency)
		case m.OwnDisk || m.Fsync <= fastFsync:
			return warn("%s; %s", place, latency)
		default:
			return fail("%s; %s", place, latency)
		}
	})
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

func judgeEtcdTLS(e Evidence) verdict {
	return everyMember(e, func(m Member) verdict {
		if !m.Process.Running {
			return unknown("etcd is not running")
		}
		flags := m.Process.Flags
		var lacks []string
		for _, flag := range []string{
			"cert-file", "key-file", "trusted-ca-file", "peer-cert-file", "peer-key-file",
			"peer-trusted-ca-file",
		} {
			if flags[flag] == "" {
				lacks = append(lacks, "--"+flag)
			}
		}
		for _, flag := range []string{"client-cert-auth", "peer-client-cert-auth"} {
			if !isOn(flags, flag, false) {
				lacks = append(lacks, "--"+flag)
			}
		}
		switch {
		case len(lacks) > 0:
			return fail("not set: %s", strings.Join(lacks, ", "))
		case flags["cert-file"] == flags["peer-cert-file"] || flags["key-file"] == flags["peer-key-file"]:
			return warn("the same certificate, %s, is served to peers and clients", flags["cert-file"])
		}
		return pass("client certificates are required; %s and %s are served", flags["cert-file"], flags["peer-cert-file"])
	})
}

// judgeCompaction checks that the history is compacted. API servers compact every five minutes
// by default (--etcd-compaction-interval). etcd can also compact on its own.
func judgeCompaction(e Evidence) verdict {
	byServers := everyReplica(e, func(r Replica) verdict {
		every, set := r.APIServer.Flags["etcd-compaction-interval"]
		switch {
		case !r.APIServer.Running:
			return unknown("the API server is not running")
		case !set:
			return pass("the API servers compact every 5 minutes")
		case isZero(every):
			return fail("compaction by the API server is disabled")
		}
		return pass("the API server compacts every %s", every)
	})
	if byServers.status == Pass {
		return byServers
	}
	byItself := everyMember(e, func(m Member) verdict {
		if retention := m.Process.Flags["auto-compaction-retention"]; m.Process.Running && !isZero(retention) &&
			retention != "" {
			return pass("etcd compacts automatically and keeps %s", retention)
		}
		return fail("automatic compaction of etcd is disabled")
	})
	if byItself.status == Pass {
		return byItself
	}
	return byServers
}
