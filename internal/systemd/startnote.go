package systemd

import (
	"path"
	"regexp"
	"strings"
)

var (
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	plainPath  = regexp.MustCompile(`^/[A-Za-z0-9._@+:,=%/~-]+$`)
)

// StartNote is the line of a unit file by which each start notes, in the file at
// path, the digests of the files that the process then reads. The note is the
// evidence for whether a restart is due: a change whose restart was cut off is
// seen by the next look, and so is an edit that no process has read.
//
// It runs as root whatever the unit's user is, so it sees files of any mode.
func StartNote(path string, inputs ...string) string {
	return "ExecStartPre=+/bin/sh -c 'sha256sum " + strings.Join(inputs, " ") + " >" + path + "'"
}

// StartNoteEntry is a file in the text of a note, as sha256sum writes it.
func StartNoteEntry(digest, path string) string { return digest + "  " + path + "\n" }

// ReadStartNote gives the digests, by path, in the text of a note; none for an
// empty one. A line of another form is no evidence of anything, and is left out.
func ReadStartNote(text string) map[string]string {
	digests := map[string]string{}
	for line := range strings.Lines(text) {
		if digest, file, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && digestForm.MatchString(digest) && plainPath.MatchString(file) && path.Clean(file) == file {
			digests[file] = digest
		}
	}
	return digests
}
