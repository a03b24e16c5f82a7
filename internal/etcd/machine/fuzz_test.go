package machine

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
)

// FuzzReadMovement verifies that sizes and times are never negative.
func FuzzReadMovement(f *testing.F) {
	f.Add("10 1700000000.1234567890 snap/db\n20 1700000001.5 wal/0.wal\n")
	f.Add("-1 -1.5 wal/0.wal\n9223372036854775807 99999999999.9 snap/db\n")
	f.Fuzz(func(t *testing.T, output string) {
		var s sample
		s.readMovement(output)
		if s.Bytes < 0 || s.Database < 0 || s.Database > s.Bytes || s.WrittenAt < 0 {
			t.Errorf("%q is parsed as %+v", output, s)
		}
	})
}

// FuzzArchivedAs verifies that the path of an archive is a plain one of the member.
func FuzzArchivedAs(f *testing.F) {
	f.Add("archive /var/lib/etcd-archive/cp1-20260101T000000Z\n")
	f.Add("archive /a/../b/cp1-x; id\narchive $(id)\n")
	f.Fuzz(func(t *testing.T, output string) {
		got := ArchivedAs(output, "cp1")
		if got != "" && (!strings.HasPrefix(got, "/") || !strings.Contains(got, "/cp1-") ||
			strings.ContainsAny(got, " ;$`'\"\n\x1b")) {
			t.Errorf("%q is parsed as %q", output, got)
		}
	})
}

// FuzzReadAPIServers verifies that only addresses in canonical form, without a zone, are read.
func FuzzReadAPIServers(f *testing.F) {
	const prefix = "/registry/masterleases/"
	f.Add(prefix + "10.0.0.11\n" + prefix + "fd00::0011\n")
	f.Add(prefix + "fe80::1%eth0\n" + prefix + "$(id)\n::ffff:10.0.0.1\n")
	f.Fuzz(func(t *testing.T, output string) {
		for _, got := range ReadAPIServers(output, prefix) {
			if ip, err := netip.ParseAddr(got); err != nil || ip.Zone() != "" || ip.Is4In6() || ip.String() != got {
				t.Errorf("%q is parsed as %q", output, got)
			}
		}
	})
}

// FuzzReadPosition verifies that an index and a revision are whole numbers that a float64 holds.
func FuzzReadPosition(f *testing.F) {
	f.Add("etcd_server_proposals_committed_total 12\netcd_debugging_mvcc_current_revision 7\n")
	f.Add("etcd_server_proposals_applied_total NaN\netcd_debugging_mvcc_current_revision -1e300\n")
	f.Fuzz(func(t *testing.T, metrics string) {
		index, revision, err := readPosition(metrics)
		if err == nil && (index == 0 || index >= 1<<53 || revision <= 0 || revision >= 1<<53) {
			t.Errorf("%q is parsed as index %d, revision %d", metrics, index, revision)
		}
	})
}

// FuzzSnapshotFileIn verifies that sizes and revisions are never negative.
func FuzzSnapshotFileIn(f *testing.F) {
	f.Add("1000 1700000000 12\n")
	f.Add("-1 -1 -1\n")
	f.Fuzz(func(t *testing.T, output string) {
		if file, err := snapshotFileIn(output); err == nil && file != nil && (file.Size < 0 || file.Revision < 0) {
			t.Errorf("%q is parsed as %+v", output, file)
		}
	})
}

// FuzzArchivedSnapshotIn verifies that the path of a snapshot is a plain one.
func FuzzArchivedSnapshotIn(f *testing.F) {
	f.Add("1700000000 /var/lib/etcd-archive/scheduled/a.db\n")
	f.Add("1700000000 /a b;$(id)\n")
	f.Fuzz(func(t *testing.T, output string) {
		snapshot, err := archivedSnapshotIn(output)
		if err == nil && snapshot != nil && (!strings.HasPrefix(snapshot.Path, "/") ||
			strings.ContainsAny(snapshot.Path, " ;$`'\"\n\x1b")) {
			t.Errorf("%q is parsed as %+v", output, snapshot)
		}
	})
}

// FuzzReadStaged verifies that what was staged is complete, and that its token is one that a unit can have.
func FuzzReadStaged(f *testing.F) {
	f.Add("token etcd-0123456789abcdef\nsize 1\nsaved 1700000000\nrevision 7\nbump 9\nkeys 3\nca eA==\nhead eA==\n")
	f.Add("token $(id)\nsize -1\nsaved x\nsample " + strings.Repeat("A", 64) + "\n")
	f.Fuzz(func(t *testing.T, output string) {
		got, err := ReadStaged(output)
		if err == nil && (got.Token == "" || strings.ContainsAny(got.Token, " ;$`'\"\n\x1b") || got.Size < 0 ||
			got.Revision < 0 || got.Bump < 0 || got.Keys < 0 || got.Saved.IsZero()) {
			t.Errorf("%q is parsed as %+v", output, got)
		}
	})
}

// FuzzParseEnvironment: a variable is of one line, and what was read is read from what is written of it.
func FuzzParseEnvironment(f *testing.F) {
	f.Add("ETCD_INITIAL_CLUSTER=cp1=https://10.0.0.11:2380\nETCD_INITIAL_CLUSTER_STATE=new\n")
	f.Add("A\n=\n = b \r\nA=1\nA=2")
	f.Fuzz(func(t *testing.T, text string) {
		env := ParseEnvironment(text)
		var b strings.Builder
		for key, value := range env {
			if strings.ContainsAny(key, "=\n") || strings.Contains(value, "\n") {
				t.Errorf("%q is %q", key, value)
			}
			b.WriteString(key + "=" + value + "\n")
		}
		if again := ParseEnvironment(b.String()); !maps.Equal(again, env) {
			t.Errorf("%q is read as %q", env, again)
		}
	})
}
