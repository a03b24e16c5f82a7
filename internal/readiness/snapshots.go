package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// longestInterval is how seldom snapshots may be saved: what was written since is lost.
	longestInterval = time.Hour
	// clockTolerance is how much a machine's clock may be ahead.
	clockTolerance = 5 * time.Minute
	// oldestDrill is how long ago a restore drill may have succeeded.
	oldestDrill = 30 * 24 * time.Hour
)

// judgeSnapshots judges whether snapshots are saved, and the last drill that has restored one.
func judgeSnapshots(e Evidence) verdict {
	saved, drilled := judgeSaved(e), judgeDrill(e)
	return verdict{worse(saved.status, drilled.status), saved.evidence + "; " + drilled.evidence}
}

// judgeDrill judges the last restore drill. Where snapshots are uploaded, there is something that a drill can restore.
// Otherwise, none is no fault that machines show: another system saves snapshots, and may restore them elsewhere.
func judgeDrill(e Evidence) verdict {
	const none = "no restore drill is recorded (kube_etcd_restore_drill)"
	d := e.Drill
	switch {
	case d == nil && slices.ContainsFunc(e.Members, uploads):
		return warn("%s, so whether the uploaded snapshots can be restored is not known", none)
	case d == nil:
		return pass(none)
	}
	at := d.Ended.UTC().Format(time.RFC3339)
	switch {
	case !d.Succeeded:
		return fail("the restore drill of %s failed: %s", at, d.Problem)
	case d.Ended.After(e.Now.Add(clockTolerance)):
		return unknown("the last restore drill was at %s, which is in the future", at)
	case e.Now.Sub(d.Ended) > oldestDrill:
		return warn("the last restore drill was at %s, more than %d days ago", at, int(oldestDrill.Hours()/24))
	}
	text := fmt.Sprintf("the restore drill of %s succeeded in %.1f s with a snapshot that was %s old", at, d.RTO.Seconds(),
		d.RPO.Round(time.Second))
	if !d.Compared {
		return warn("%s, but was not compared with the live cluster, because that was restored since, or no API server "+
			"answered on the drill's machine", text)
	}
	return pass("%s", text)
}

// uploads reports whether the provider's own timer uploads snapshots from the machine of a member.
func uploads(m Member) bool { return m.Scheduled != nil && m.Scheduled.Uploads }

// judgeSaved judges the provider's own timer. Of other timers, machines show that they run, and not
// whether a snapshot arrived elsewhere.
func judgeSaved(e Evidence) verdict {
	own, there := judgeScheduled(e)
	words, foreign := judgeForeign(e)
	if there {
		return verdict{own.status, "timers: " + strings.Join(append([]string{own.evidence}, words...), "; ")}
	}
	unread := false
	for _, m := range e.Members {
		unread = unread || m.Unread != ""
	}
	switch {
	case len(words) > 0:
		return verdict{foreign, "timers: " + strings.Join(words, "; ")}
	case len(e.Members) == 0 || unread:
		return unknown("some machines of the members could not be checked for a timer")
	}
	return fail("no systemd timer on a member's machine mentions etcd")
}

// judgeForeign describes the timers that are not the provider's. The best of them counts: one is
// enough.
func judgeForeign(e Evidence) (words []string, best Status) {
	ascending := []Status{Fail, Warn, unseen}
	for _, m := range e.Members {
		for _, s := range m.Schedules {
			as, word := Fail, "its last run failed"
			switch {
			case s.Failed:
			case s.Ran.IsZero():
				as, word = Warn, "it has not run yet"
			default:
				as, word = unseen, fmt.Sprintf("last run at %s: whether a snapshot was stored elsewhere does not show",
					s.Ran.UTC().Format(time.RFC3339))
			}
			words = append(words, fmt.Sprintf("%s on %s, %s", s.Name, m.Name, word))
			best = ascending[max(slices.Index(ascending, best), slices.Index(ascending, as))]
		}
	}
	return words, best
}

// scheduledFacts are what the timers of all machines say together.
type scheduledFacts struct {
	failed, stopped, without, unread []string
	uploads                          bool
	sent                             time.Time // of the newest snapshot that was uploaded
	from                             string    // its machine
	since                            time.Time // when uploads were configured on the last machine; zero: not known
	interval                         time.Duration
	unclear                          bool // the interval of a timer is not known
}

// judgeScheduled judges the provider's own timer, which is on the machine of every member. The
// machine whose member leads saves the snapshot, and each machine uploads what it has saved.
// there is false if no machine has the timer.
func judgeScheduled(e Evidence) (v verdict, there bool) {
	var f scheduledFacts
	for _, m := range e.Members {
		s := m.Scheduled
		switch {
		case m.Unread != "":
			f.unread = append(f.unread, m.Name)
			continue
		case s == nil:
			f.without = append(f.without, m.Name)
			continue
		case s.Failed:
			f.failed = append(f.failed, m.Name)
		case s.Next.IsZero():
			f.stopped = append(f.stopped, m.Name)
		}
		there, f.uploads = true, f.uploads || s.Uploads
		f.unclear = f.unclear || s.Interval <= 0
		f.interval = max(f.interval, s.Interval)
		if s.Sent.After(f.sent) {
			f.sent, f.from = s.Sent, m.Name
		}
		if s.Since.After(f.since) {
			f.since = s.Since
		}
	}
	return f.observed(f.judge(e.Now)), there
}

// observed returns a verdict that takes into account the machines that were not observed: the newest snapshot may have
// been uploaded from one of them, and the last run may have failed there.
func (f scheduledFacts) observed(v verdict) verdict {
	if len(f.unread) == 0 {
		return v
	}
	return unknown("%s; not observed: %s", v.evidence, strings.Join(f.unread, ", "))
}

func (f scheduledFacts) judge(now time.Time) verdict {
	const timer = "etcd-snapshot.timer"
	sent := f.sent.UTC().Format(time.RFC3339)
	overdue := func(since time.Time) bool {
		return f.uploads && !since.IsZero() && f.interval > 0 && now.Sub(since) > 2*max(f.interval, time.Minute)
	}
	switch {
	case f.sent.After(now.Add(clockTolerance)):
		return unknown("%s, but the last uploaded snapshot is that of %s from %s, which is in the future", timer, sent,
			f.from)
	case overdue(f.sent):
		return fail("%s, but no snapshot has been uploaded since that of %s from %s, more than two intervals of %s ago",
			timer, sent, f.from, f.interval)
	case f.sent.IsZero() && overdue(f.since):
		return fail("%s, but no snapshot has ever been uploaded, and uploads are configured since %s, more than two "+
			"intervals of %s ago", timer, f.since.UTC().Format(time.RFC3339), f.interval)
	case len(f.failed) > 0:
		return warn("%s, but its last run failed on %s", timer, strings.Join(f.failed, ", "))
	case len(f.without)+len(f.stopped) > 0:
		return warn("%s, but it is not running on %s", timer, strings.Join(append(f.without, f.stopped...), ", "))
	case !f.uploads:
		return warn("%s, but snapshots stay on the machines: neither upload nor s3 is set", timer)
	case f.sent.IsZero():
		return warn("%s, but no snapshot has been uploaded yet", timer)
	case f.unclear:
		return unknown("%s, but how often it runs is not known", timer)
	case f.interval > longestInterval:
		return warn("%s, but it runs every %s only: what was written since the last snapshot is lost", timer, f.interval)
	}
	return pass("%s every %s, the last uploaded snapshot is that of %s from %s", timer, f.interval, sent, f.from)
}
