package etcd

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

// unshown reports whether problem.Line would not keep a character.
func unshown(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }

// FuzzObservedMember verifies that what a machine reports about its timers and its disk can be
// shown in a terminal, and has a limit.
func FuzzObservedMember(f *testing.F) {
	f.Add("disk\t1\t2\t/data\text4\nscheduled\tsuccess\tyes\tMon 2026-11-23 01:00:00 UTC\tn/a\t" +
		"20261123T010000Z-cp1.db.sent\n")
	f.Add("timer\tbackup.timer\tsuccess\tn/a\tZXRjZGN0bBtbMko=\n")
	f.Add("data\t8:17\tsdb\nmount\t8:1\t/\tsdb $(id)\nrun\tMon 2026-11-23 01:00:00 UTC\n")
	f.Fuzz(func(t *testing.T, output string) {
		m := observedMember("10.0.0.11", output, answers{})
		if len(m.Timers) > mostTimers || strings.ContainsFunc(m.Disk, unshown) {
			t.Errorf("%d timers, disk %q", len(m.Timers), m.Disk)
		}
		if len(m.Sharing) > mostSharing || strings.ContainsFunc(strings.Join(append(m.Sharing, m.Devices...), ""), unshown) ||
			m.Scheduled != nil && m.Scheduled.Interval < 0 {
			t.Errorf("disks %q, shared with %q, snapshots %+v", m.Devices, m.Sharing, m.Scheduled)
		}
		for _, timer := range m.Timers {
			if strings.ContainsFunc(timer.Name+timer.Command, unshown) {
				t.Errorf("timer %q runs %q", timer.Name, timer.Command)
			}
		}
	})
}

// FuzzFsyncIn verifies that a page of metrics never gives a negative duration.
func FuzzFsyncIn(f *testing.F) {
	f.Add(fsyncHistogram + "_bucket{le=\"0.001\"} 99\n" + fsyncHistogram + "_bucket{le=\"+Inf\"} 100\n")
	f.Add(fsyncHistogram + "_bucket{le=\"-1e300\"} -5\n" + fsyncHistogram + "_bucket{le=\"NaN\"} NaN\n")
	f.Fuzz(func(t *testing.T, metrics string) {
		if got := fsyncIn(metrics); got.bound < 0 {
			t.Errorf("%q is parsed as %s of %d", metrics, got.bound, got.count)
		}
	})
}

// FuzzCompactionIn verifies that a page of metrics never gives a negative duration.
func FuzzCompactionIn(f *testing.F) {
	f.Add(compactedRevision + " 5\n" + compactionTime + " 1.8e9\n" + processStart + " 1.7e9\n")
	f.Add(compactedRevision + " -5\n" + compactionTime + " NaN\n" + processStart + " 1e300\n")
	f.Fuzz(func(t *testing.T, metrics string) {
		if got := compactionIn(metrics, time.Unix(1_800_000_000, 0)); got.Uptime < 0 || got.Last.Before(time.Time{}) {
			t.Errorf("%q is parsed as %+v", metrics, got)
		}
	})
}
