package etcd

import (
	"fmt"
	"path"
	"strings"
)

// Snapshots is how snapshots are saved on a schedule. Every member's machine has
// the timer; the one whose member leads saves.
type Snapshots struct {
	Schedule        string // a calendar expression of systemd
	Kept            int    // that many stay on a machine, the newest
	Upload          string // commands for sh that bring one elsewhere; "": it stays
	EnvironmentFile string // on the machine, for the upload; "": none
}

// What a schedule and a retention are by default.
const (
	DefaultSchedule       = "hourly"
	DefaultScheduledKept  = 24
	longestUpload         = 16 << 10 // bytes of commands: more belongs in a program of its own
	uploadTimeoutSecs     = 3600
	snapshotRetrySecs     = 5
	snapshotRetries       = 12
	snapshotStatusTimeout = "5s"
)

// ValidateUpload accepts commands that a file can hold.
func ValidateUpload(commands string) error {
	switch {
	case strings.TrimSpace(commands) == "":
		return fmt.Errorf("the upload command is empty: leave the argument out where snapshots stay on the machine")
	case strings.ContainsRune(commands, 0):
		return fmt.Errorf("the upload command holds a NUL character")
	case len(commands) > longestUpload:
		return fmt.Errorf("the upload command has %d bytes, at most %d are taken: put it into a program on the machines", len(commands), longestUpload)
	}
	return nil
}

// ValidateEnvironmentFile accepts an absolute path that a unit can name as it is.
func ValidateEnvironmentFile(file string) error {
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return fmt.Errorf("environment file %q is not a plain absolute path", file)
	case !plainPath.MatchString(file):
		return fmt.Errorf("environment file %q has characters other than letters, digits and . _ - /", file)
	}
	return nil
}
