package readiness

import (
	"fmt"
	"strings"
	"time"
)

// uploadPrograms are substrings of commands that copy a file to another machine.
var uploadPrograms = []string{
	"s3://", "gs://", "az storage", "gsutil", "rclone", "restic", "rsync", "scp ", "sftp",
	"aws s3", "mc cp", "borg",
}

func judgeSnapshots(e Evidence) verdict {
	var words []string
	status := Fail
	if v, there := judgeScheduled(e.Members); there {
		words, status = append(words, v.evidence), v.status
	}
	for _, m := range e.Members {
		for _, s := range m.Schedules {
			as := Warn
			word := fmt.Sprintf("%s on %s, but it is unknown whether it stores snapshots elsewhere", s.Name, m.Name)
			switch {
			case s.Failed:
				word = fmt.Sprintf("%s on %s, but its last run failed", s.Name, m.Name)
			case s.Ran.IsZero():
				word = fmt.Sprintf("%s on %s, but it has not run yet", s.Name, m.Name)
			case containsAny(s.Command, uploadPrograms):
				as, word = Pass, fmt.Sprintf("%s on %s, last run at %s", s.Name, m.Name, s.Ran.UTC().Format(time.RFC3339))
			}
			words = append(words, word)
			if as == Pass || status == Fail {
				status = as
			}
		}
	}
	unread := false
	for _, m := range e.Members {
		unread = unread || m.Unread != ""
	}
	switch {
	case len(words) > 0:
		return verdict{status, "timers: " + strings.Join(words, "; ")}
	case len(e.Members) == 0 || unread:
		return unknown("some machines of the members could not be checked for a timer")
	}
	return fail("no systemd timer on a member's machine mentions etcd")
}

// judgeScheduled judges the provider's own timer, which is on the machine of every member. The
// machine whose member leads saves the snapshot, and each machine uploads what it has saved.
// there is false if no machine has the timer.
func judgeScheduled(members []Member) (v verdict, there bool) {
	var failed, stopped, without []string
	var newest Scheduled
	var from string
	var ran time.Time
	var period time.Duration
	uploads := false
	for _, m := range members {
		s := m.Scheduled
		switch {
		case m.Unread != "":
			continue
		case s == nil:
			without = append(without, m.Name)
			continue
		case s.Failed:
			failed = append(failed, m.Name)
		case s.Next.IsZero():
			stopped = append(stopped, m.Name)
		}
		there, uploads = true, uploads || s.Uploads
		if s.Sent.After(newest.Sent) {
			newest, from = *s, m.Name
		}
		if s.Ran.After(ran) && s.Next.After(s.Ran) {
			ran, period = s.Ran, s.Next.Sub(s.Ran)
		}
	}
	const timer = "etcd-snapshot.timer"
	switch sent := newest.Sent.UTC().Format(time.RFC3339); {
	case len(failed) > 0:
		return warn("%s, but its last run failed on %s", timer, strings.Join(failed, ", ")), there
	case len(without)+len(stopped) > 0:
		return warn("%s, but it is not running on %s", timer, strings.Join(append(without, stopped...), ", ")), there
	case !uploads:
		return warn("%s, but snapshots stay on the machines: neither upload nor s3 is set", timer), there
	case newest.Sent.IsZero():
		return warn("%s, but no snapshot has been uploaded yet", timer), there
	case !ran.IsZero() && newest.Sent.Before(ran.Add(-period)):
		return warn("%s, but no snapshot has been uploaded since that of %s from %s", timer, sent, from), there
	default:
		return pass("%s, the last uploaded snapshot is that of %s from %s", timer, sent, from), there
	}
}
