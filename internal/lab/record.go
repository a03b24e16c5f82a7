package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Recording is what a machine has noted between Record and Recorded.
type Recording struct {
	Lines []string      // what the script printed
	Hung  time.Duration // the longest time between two writes to the disk
}

// Record runs a script on the machine again and again, with a second between, and notes what it prints. Neither it nor
// the script may need the disk for that: it goes on while the disk hangs, when nobody can log in. It writes to the disk
// too, to note for how long that takes.
func (m *Machine) Record(ctx context.Context, script string) error {
	_, err := m.Run(ctx, fmt.Sprintf(`rm -f /run/recorded
cat >/run/recorder <<'END'
while :; do
  { %s
  } 2>/dev/null >>/run/recorded
  sleep 1
done
END
cat >/run/recorder-disk <<'END'
while :; do
  if echo >>/var/tmp/recorder; then
    read -r uptime _ </proc/uptime
    echo "disk $uptime" >>/run/recorded
  fi
  sleep 1
done
END
for each in recorder recorder-disk; do
  systemd-run --quiet --unit=$each sh /run/$each
done`, script))
	return err
}

// Recorded ends Record.
func (m *Machine) Recorded(ctx context.Context) (Recording, error) {
	out, err := m.Run(ctx, `systemctl stop recorder recorder-disk
cat /run/recorded
rm /run/recorded /run/recorder /run/recorder-disk /var/tmp/recorder`)
	if err != nil {
		return Recording{}, err
	}
	var recording Recording
	last := 0.0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		text, write := strings.CutPrefix(line, "disk ")
		if !write {
			recording.Lines = append(recording.Lines, line)
			continue
		}
		uptime, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Recording{}, fmt.Errorf("the recording of %s: %w", m.Name, err)
		}
		if last > 0 {
			recording.Hung = max(recording.Hung, time.Duration((uptime-last)*float64(time.Second)))
		}
		last = uptime
	}
	return recording, nil
}
