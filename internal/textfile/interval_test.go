package textfile

import (
	"os"
	"os/exec"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestSnapshotInterval: a schedule that pauses counts with its pause at any time of the day, also if the pause is not
// among the next runs any more.
func TestSnapshotInterval(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testrun.Missing(t, "systemd-analyze")
	}
	for name, c := range map[string]struct{ calendar, last, next, want string }{
		"daily":           {"daily", "Mon 2026-01-05 00:00:00 UTC", "Tue 2026-01-06 00:00:00 UTC", "86400"},
		"working hours":   {"Mon..Fri 08..18:00", "", "", "223200"},
		"a present pause": {"*-*-* 08..17:*:00", "Mon 2026-01-05 17:59:00 UTC", "Tue 2026-01-06 08:00:00 UTC", "50460"},
		"it runs":         {"hourly", "Mon 2026-01-05 17:00:00 UTC", "Mon 2026-01-05 17:00:00 UTC", "3600"},
		"it never ran":    {"hourly", "n/a", "Mon 2026-01-05 17:00:00 UTC", "3600"},
		"it is stopped":   {"hourly", "Mon 2026-01-05 17:00:00 UTC", "", "3600"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t)
			program := s.write(t, "systemctl", "#!/bin/sh\n[ \"$TZ\" = UTC ] || exit 0\ncase \"$*\" in\n"+
				"*=LastTriggerUSec*' snapshot.timer') echo '"+c.last+"' ;;\n"+
				"*=NextElapseUSecRealtime*' snapshot.timer') echo '"+c.next+"' ;;\nesac\n")
			if err := os.Chmod(program, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", s.dir+":"+os.Getenv("PATH"))
			s.Snapshots = &Snapshots{
				Dir: s.dir + "/snapshots", Calendar: c.calendar, Timer: s.dir + "/snapshot.timer", Service: "none.service",
			}
			const series = `kube_etcd_snapshot_interval_seconds{resource="kube_etcd_member"}`
			if have := s.run(t)[series]; have != c.want {
				t.Errorf("the interval is %q, want %s", have, c.want)
			}
		})
	}
}
