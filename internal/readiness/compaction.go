package readiness

import (
	"strconv"
	"time"
)

const (
	// standardCompaction is kube-apiserver's --etcd-compaction-interval by default.
	standardCompaction = 5 * time.Minute
	// longestCompaction is how seldom the history may be compacted. etcd's own guide names an hour.
	longestCompaction = time.Hour
	// compactionSlack is how late a compaction may be.
	compactionSlack = 5 * time.Minute
)

// judgeCompaction checks that the history is compacted. API servers do it, or etcd on its own. An
// API server compacts at every second interval what was there at the first.
func judgeCompaction(e Evidence) verdict {
	var every time.Duration
	byServers := everyReplica(e, func(r Replica) verdict {
		interval, v := r.compacts()
		every = max(every, interval)
		return v
	})
	byItself := everyMember(e, func(m Member) verdict {
		if retention := m.Process.Flags["auto-compaction-retention"]; m.Process.Running && !isZero(retention) &&
			retention != "" {
			return pass("etcd compacts automatically and keeps %s", retention)
		}
		return fail("automatic compaction of etcd is disabled")
	})
	by := byServers
	if by.status != Pass && byItself.status == Pass {
		by, every = byItself, longestCompaction
	}
	if by.status == Fail || by.status == Unknown {
		return by
	}
	due := 2*every + compactionSlack
	seen := lastCompacted(e, due)
	return worst(by, everyMember(e, func(m Member) verdict { return m.Compaction.judge(e.Now, due, seen) }))
}

// lastCompacted returns the least revision up to which a member was seen to be compacted in time; 0 if none was. A
// compaction is an entry of the log, so every member does the same ones: one that has at least this revision has done
// it too, or a later one.
func lastCompacted(e Evidence, due time.Duration) uint64 {
	least := uint64(0)
	for _, m := range e.Members {
		if m.Unread == "" && m.Compaction.fresh(e.Now, due) && (least == 0 || m.Compaction.Revision < least) {
			least = m.Compaction.Revision
		}
	}
	return least
}

// fresh reports whether a member was seen to be compacted in time.
func (c Compaction) fresh(now time.Time, due time.Duration) bool {
	ago := now.Sub(c.Last).Round(time.Second)
	return c.Unread == "" && !c.Last.IsZero() && c.Revision > 0 && ago >= -clockTolerance && ago <= due
}

// compacts returns how often the API server of a replica compacts.
func (r Replica) compacts() (time.Duration, verdict) {
	text, set := r.APIServer.Flags["etcd-compaction-interval"]
	switch every, err := time.ParseDuration(text); {
	case !r.APIServer.Running:
		return 0, unknown("the API server is not running")
	case !set:
		return standardCompaction, pass("the API servers compact every %s", standardCompaction)
	case isZero(text):
		return 0, fail("compaction by the API server is disabled")
	case err != nil || every < 0:
		return 0, unknown("--etcd-compaction-interval=%s is not an interval", text)
	case every > longestCompaction:
		return every, warn("the API server compacts every %s only", every)
	default:
		return every, pass("the API server compacts every %s", every)
	}
}

// judge judges what was seen of compactions at one member. seen is the revision of lastCompacted.
func (c Compaction) judge(now time.Time, due time.Duration, seen uint64) verdict {
	ago := now.Sub(c.Last).Round(time.Second)
	switch {
	case c.Unread != "":
		return unknown("whether it was compacted is unknown: %s", c.Unread)
	case c.Last.After(now.Add(clockTolerance)):
		return unknown("its last compaction is in the future, at %s", c.Last.UTC().Format(time.RFC3339))
	case c.fresh(now, due):
		return pass("compacted within the last %s", due)
	case !c.Last.IsZero() && c.Revision > 0:
		return fail("the last compaction was %s ago, up to revision %s", ago, strconv.FormatUint(c.Revision, 10))
	case c.Uptime <= due && seen > 0 && c.Revision >= seen: // by an earlier process, as another member shows
		return pass("compacted within the last %s", due)
	case c.Uptime <= due:
		return notShown("no compaction since its start %s ago; one is due within %s", c.Uptime.Round(time.Second), due)
	}
	return fail("no compaction since its start %s ago", c.Uptime.Round(time.Second))
}
