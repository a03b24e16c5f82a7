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

// StartNote returns the line of a unit file that records, at each start, the digests of the
// files that the process then reads, in the file at path. The note shows whether a restart is
// due: the next observation detects a change whose restart was interrupted, and also an edit
// that no process has read.
//
// The command runs as root whatever the unit's user is, so it can read files of any mode.
func StartNote(path string, inputs ...string) string {
	return "ExecStartPre=+/bin/sh -c 'sha256sum " + strings.Join(inputs, " ") + " >" + path + "'"
}

// StartNoteEntry returns the entry of one file in a note, in the format of sha256sum.
func StartNoteEntry(digest, path string) string { return digest + "  " + path + "\n" }

// ReadStartNote returns the digests in a note, by path. It returns none for an empty note. A
// malformed line is skipped.
func ReadStartNote(text string) map[string]string {
	digests := map[string]string{}
	for line := range strings.Lines(text) {
		if digest, file, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && digestForm.MatchString(digest) &&
			plainPath.MatchString(file) && path.Clean(file) == file {
			digests[file] = digest
		}
	}
	return digests
}
