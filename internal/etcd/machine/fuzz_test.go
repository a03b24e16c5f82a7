package machine

import (
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
