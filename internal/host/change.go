package host

import "io/fs"

// Change is the wanted state of a part of a machine. It is made in one round trip
// and can be repeated after an interruption at any point. The order is: Users, Dirs,
// Files (all staged beside their targets first, then renamed one by one),
// Links, Remove, Script. File content travels on standard input only and
// never reaches a log, a command line or a temporary file with a wider mode.
type Change struct {
	Users []User
	Dirs  []Dir
	Files []File
	Links []Link
	// Remove are files, links or directories, removed where they are. A directory
	// that is not empty is left.
	Remove []string
	// Script runs last, as root under `sh -eu`, with the shell variable
	// CHANGED set to the space-separated paths that this change altered
	// (also "" when nothing did). A path altered by an earlier Change whose Script
	// did not get to its end counts again, until the next boot: what Script would
	// have restarted still runs with the old content. systemd is reloaded before
	// it when a path below /etc/systemd/system was among them, or when systemd
	// says that one of these units needs it. It must hold no secret. What varies
	// in it comes in Vars, see Assignments.
	Script Script
	Vars   map[string]string // set for Script: name → value
}

// User is a system user without login, with a group of the same name.
type User struct {
	Name   string
	Groups []string // extra groups, made when missing
}

// Dir is a directory with exactly this mode and owner.
type Dir struct {
	Path         string
	Mode         fs.FileMode // permission bits
	Owner, Group string      // "" means root
}

// File is a file with exactly this content, mode and owner.
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

// Applied is what a Change did: the paths whose content, mode, owner or target
// it altered (see Change.Script), sorted, and the Script's standard output.
type Applied struct {
	Changed []string
	Output  string
}
