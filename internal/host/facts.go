package host

import (
	"fmt"
	"io/fs"
	"time"
)

// Query specifies what Observe reads in addition to the basic facts.
type Query struct {
	Files    []string // existence, mode, owner, digest
	Binaries []string // like Files, for files of Install: the digest is taken from its record if size and time still match
	Contents []string // like Files, with the content, up to 1 MiB: never for a private key
	// Notes are small files that root writes to directories of other users: existence, mode, owner, content. What those
	// users have put in their place, anything but a regular file of root of at most 64 KiB, counts as missing.
	Notes []string
	Dirs  []string // entry names
	// SharedDirs are like Dirs, for directories in which users other than root may make any number of entries: of more
	// than MaxShared, Facts.Dirs has some, and Facts.Crowded has the directory. SharedEntries are names that Facts.Dirs
	// has whenever they are in one of these directories.
	SharedDirs    []string
	SharedEntries []string
	Units         []string // systemd units, with the suffix
	Ports         []int    // their listeners
	Disks         []string // paths whose free disk space is reported; if one is missing, that of the nearest parent
	Commands      []string // programs searched on root's PATH ("haproxy", "keepalived")
	// Script runs last under sh, for data that the fields above do not cover. Its output is
	// returned as Facts.Output and its failure is ignored. Variable values are passed in Vars,
	// see Assignments.
	Script Script
	Vars   map[string]string // set for Script: name → value
}

// MaxShared is the number of entries that are read of each of Query.SharedDirs. With names of any length, some such
// directories fit into an answer.
const MaxShared = 2000

// clockLimit keeps any two machines within four minutes of each other: certificates are valid from five minutes before
// they are issued.
const clockLimit = 2 * time.Minute

// Facts is the state of a machine, observed in one round trip.
type Facts struct {
	MachineID    string
	BootID       string
	Hostname     string
	OS           string // ID of os-release: "debian"
	OSLike       string // ID_LIKE of os-release
	Architecture string // GOARCH: "amd64", "arm64"; the kernel's name if Go has none
	Systemd      string // version number of the running systemd; "" if PID 1 is not systemd
	// ClockOffset is the machine's clock minus this computer's, corrected by half the round
	// trip. ClockError is that half.
	ClockOffset time.Duration
	ClockError  time.Duration

	Files     map[string]FileState
	Dirs      map[string][]string // missing key: the directory does not exist
	Crowded   map[string]bool     // of SharedDirs, those with more entries than Dirs has
	Units     map[string]UnitState
	Listeners map[int]Listener  // missing key: the port is free
	DiskFree  map[string]int64  // bytes
	Commands  map[string]string // name → path; missing key: not installed
	Output    string
}

// FileState is the state of one file. A path that does not exist has no entry in Facts.Files.
type FileState struct {
	Mode         fs.FileMode // with the type: fs.ModeDir, fs.ModeSymlink; no type for a regular file
	Owner, Group string
	Size         int64
	SHA256       string // hex; "" if it is not a regular file, or larger than 1 GiB
	Recorded     string // for a binary: the digest that Install recorded; differs from SHA256 if it was altered since
	Content      string // only if requested; "" if it is too large
}

// UnitState is the state of one unit, in systemd's terms.
type UnitState struct {
	Load       string // "loaded", "not-found", "masked", …
	Active     string // "active", "activating", "inactive", "failed", …
	Sub        string
	Enabled    string // UnitFileState: "enabled", "disabled", …
	Result     string // "success", "exit-code", "assert", …
	MainPID    int
	Restarts   int
	Since      time.Time // ActiveEnterTimestamp; zero if never
	NeedReload bool      // the unit file changed after systemd read it
	Invocation string    // of its last start: 32 hexadecimal digits; "" if never
	Queued     bool      // systemd has a job for it, such as a start that waits for another unit
}

// Listener is the process that listens on a port.
type Listener struct {
	Process   string   // "" if unknown
	Addresses []string // "0.0.0.0", "10.0.0.11", "::"
}

// ClockProblem returns how far the clock of the machine is from this computer's, if that is too far for certificates
// that are issued here; otherwise "".
func (f Facts) ClockProblem() string {
	if f.ClockOffset.Abs()-f.ClockError <= clockLimit {
		return ""
	}
	direction := "ahead of"
	if f.ClockOffset < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("the clock is %s %s this computer's: at most %s is allowed, because new certificates would not be "+
		"valid yet, or any more", f.ClockOffset.Abs().Round(time.Second), direction, clockLimit)
}
