package machine

import (
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	const serving = 10 * time.Second
	same := sample{Index: 5, Applied: 5, DBSize: 1 << 20, Bytes: 1 << 20, WrittenAt: 9}
	for _, c := range []struct {
		name  string
		each  func(i int, s *sample) // what changes each second
		stuck bool
	}{
		{"nothing", func(int, *sample) {}, true},
		{"the log that it has", func(i int, s *sample) { s.Index += uint64(i) }, false},
		{"the log that it has applied", func(i int, s *sample) { s.Applied += uint64(i) }, false},
		{"its database", func(i int, s *sample) { s.DBSize += int64(i) }, false},
		{"its files", func(i int, s *sample) { s.Bytes += int64(i) }, false},
		{"its log within a file of one size", func(i int, s *sample) { s.WrittenAt += int64(i) }, false},
		{"its files get fewer", func(i int, s *sample) { s.Bytes -= int64(i) }, true},
		{"the traffic of a cluster whose log it has", func(i int, s *sample) {
			s.Index, s.WrittenAt, s.Ready = s.Index+uint64(i), int64(i), true
		}, true},
		{"its files, by a unit that ends every second", func(i int, s *sample) {
			s.Bytes, s.Restarts = s.Bytes+int64(i), 7+i
		}, true},
		{"its files, by a unit that has ended once", func(i int, s *sample) {
			s.Bytes, s.Restarts = s.Bytes+int64(i), min(i, 1)
		}, false},
		{
			"the log, by a unit that ends every second", func(i int, s *sample) { s.Index, s.Restarts = s.Index+uint64(i), i },
			false,
		},
	} {
		var p progress
		for i := range 60 {
			s := same
			c.each(i, &s)
			p.add(time.Duration(i)*time.Second, s)
		}
		if got := p.stuck(60*time.Second, serving); got != c.stuck {
			t.Errorf("%s moves: stuck %v, want %v", c.name, got, c.stuck)
		}
	}
	var none progress
	if none.stuck(time.Hour, serving) {
		t.Error("what was never seen is stuck")
	}
	var large progress
	large.add(0, sample{Database: 8 << 30})
	if at := serving + 512*time.Second; large.stuck(at, serving) || !large.stuck(at+1, serving) {
		t.Error("a member that starts on 8 GiB is not given the time to read them")
	}
	if got := StartTime(1 << 62); got != largestDatabase/startRate*time.Second {
		t.Errorf("a machine that lies about its database is waited for for %s", got)
	}
}

func TestReadMovement(t *testing.T) {
	var s sample
	s.readMovement("64000000 1700000001.1234567890 wal/0.wal\n64000000 1700000003.5000000000 wal/1 with spaces.wal\n" +
		"100 1700000009.0 snap/db\n7 1700000009.0 snap/tmp123\n50 1 snap/0000000000000010.snap.db\n")
	if want := (sample{Bytes: 128000157, Database: 100, WrittenAt: 1700000003500000000}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	for _, output := range []string{
		"", "\n\n", "x 1 snap/db\n", "9000000000000000000 1 snap/db", "-5 1 snap/db", "1 1", "99999999999999999999 1 snap/db",
		"0 99999999999999999999.1 wal/0.wal", "0 $(id) wal/0.wal", "0 -7.1 wal/0.wal",
		"0 1.\x1b[2Jxxxxxxx wal/0.wal",
	} {
		var s sample
		s.readMovement(output)
		if s != (sample{}) {
			t.Errorf("%q was read as %+v", output, s)
		}
	}
}
