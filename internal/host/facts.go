package host

import (
	"io/fs"
	"time"
)

// Query names what Observe looks at beyond the basic facts.
type Query struct {
	Files    []string // existence, mode, owner, digest
	Binaries []string // like Files, for what Install put there: the digest is read from its record where size and time still fit
	Contents []string // the same, and the content returned: never for a private key
	Dirs     []string // entry names
	Units    []string // systemd units, with suffix
	Ports    []int    // who listens on them
	Disks    []string // paths whose file system's free space is wanted; the nearest existing parent counts
	Commands []string // programs looked up on root's PATH ("haproxy", "keepalived")
	// Script is run last under sh; its output is returned as Facts.Output and
	// its failure ignored. For what the fields above cannot say. What varies in it
	// comes in Vars, see Assignments.
	Script Script
	Vars   map[string]string // set for Script: name → value
}

// Facts is a machine as seen in one round trip.
type Facts struct {
	MachineID    string
	BootID       string
	Hostname     string
	OS           string // ID of os-release: "debian"
	OSLike       string // ID_LIKE of os-release
	Architecture string // Go's name: "amd64", "arm64"; the kernel's name where Go has none
	Systemd      string // version number of the running systemd; "" where PID 1 is not systemd
	// ClockOffset is the machine's clock less this computer's, corrected by
	// half the round trip; ClockError is that half.
	ClockOffset time.Duration
	ClockError  time.Duration

	Files     map[string]FileState
	Dirs      map[string][]string // absent key: no such directory
	Units     map[string]UnitState
	Listeners map[int]Listener  // absent key: the port is free
	DiskFree  map[string]int64  // bytes
	Commands  map[string]string // name → path; absent key: not there
	Output    string
}

// FileState is one file. A path that is not there has no entry in Facts.Files.
type FileState struct {
	Mode         fs.FileMode // with the type: fs.ModeDir, fs.ModeSymlink; none for a regular file
	Owner, Group string
	Size         int64
	SHA256       string // hex; "" for what is no file
	Recorded     string // of a binary: the digest that Install recorded; differs from SHA256 where it was altered since
	Content      string // only where it was asked for
}

// UnitState is systemd's view of one unit, in systemd's words.
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
}

// Listener is who listens on a port.
type Listener struct {
	Process   string   // "" where unknown
	Addresses []string // "0.0.0.0", "10.0.0.11", "::"
}
