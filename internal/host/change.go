package host

import "io/fs"

// Change is the desired state of a part of a machine. It is applied in one round trip and can
// be repeated after an interruption at any point. The order is: Users, Dirs, Files (all are
// staged next to their targets first, then renamed one by one), Links, Remove, Script. File
// content is sent on standard input only and never reaches a log, a command line or a temporary
// file with a wider mode. Everything is flushed to the disk before Script runs. A Script flushes
// what it changes with Flush.
type Change struct {
	Users []User
	Dirs  []Dir
	Files []File
	Links []Link
	// Remove lists files, links or directories to remove. A directory that is not empty is
	// kept.
	Remove []string
	// Script runs last, as root under `sh -eu`. The shell variable CHANGED contains the
	// space-separated paths that this change altered (possibly ""). A path that an earlier
	// Change altered counts again, until the next boot, if the Script of that Change did not
	// complete: what Script would have restarted still runs with the old content. systemd is
	// reloaded first if a path below /etc/systemd/system was altered, or if systemd reports
	// that one of these units needs it. Script must not contain secrets. Variable values are
	// passed in Vars, see Assignments.
	Script Script
	Vars   map[string]string // set for Script: name → value
}

// User is a system user without login. Its group has the same name.
type User struct {
	Name   string
	Groups []string // supplementary groups, created if missing
}

// Dir is a directory with the given mode and owner.
type Dir struct {
	Path         string
	Mode         fs.FileMode // permission bits
	Owner, Group string      // "" means root
}

// File is a file with the given content, mode and owner.
type File struct {
	Path         string
	Content      []byte
	Mode         fs.FileMode // permission bits
	Owner, Group string      // "" means root
}

// Link is a symbolic link.
type Link struct {
	Path, Target string
}

// Applied is the result of a Change: the paths whose content, mode, owner or target it altered
// (see Change.Script), sorted, and the Script's standard output.
type Applied struct {
	Changed []string
	Output  string
}
