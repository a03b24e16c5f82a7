package host

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

var errCutOff = errors.New("the machine's answer breaks off")

// report is the answer of observe.sh: the values by key, in order.
type report map[string][]string

func parseReport(text string) (report, error) {
	r := report{}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if found {
			r[key] = append(r[key], value)
		}
	}
	if _, complete := r["end"]; !complete {
		return nil, errCutOff
	}
	return r, nil
}

func (r report) first(key string) string {
	if values := r[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// parseFacts reads the answer to q. The clock is the machine's at the start.
func parseFacts(text string, q Query) (facts Facts, clock time.Time, err error) {
	r, err := parseReport(text)
	if err != nil {
		return Facts{}, time.Time{}, err
	}
	if clock, err = parseClock(r.first("clock")); err != nil {
		return Facts{}, time.Time{}, err
	}
	facts = Facts{
		MachineID:    r.first("machine-id"),
		BootID:       r.first("boot-id"),
		Hostname:     r.first("hostname"),
		Architecture: goArchitecture(r.first("machine")),
		Systemd:      leadingDigits(r.first("systemd")),
		Commands:     map[string]string{},
	}
	facts.OS, facts.OSLike = parseOSRelease(r["os"])
	for _, value := range r["command"] {
		name, path, _ := strings.Cut(value, "\t")
		facts.Commands[name] = path
	}
	if facts.Files, err = parseFiles(r); err != nil {
		return Facts{}, time.Time{}, err
	}
	facts.Dirs = parseDirs(text)
	if facts.Units, err = parseUnits(r["unit"], q.Units); err != nil {
		return Facts{}, time.Time{}, err
	}
	facts.Listeners = parseListeners(r, q.Ports)
	if facts.DiskFree, err = parseDisks(r["disk"]); err != nil {
		return Facts{}, time.Time{}, err
	}
	output, err := base64.StdEncoding.DecodeString(r.first("output"))
	if err != nil {
		return Facts{}, time.Time{}, fmt.Errorf("output of the script: %w", err)
	}
	facts.Output = string(output)
	return facts, clock, nil
}

// parseClock reads seconds with an optional fraction (date +%s.%N).
func parseClock(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the machine's clock reads %q", text)
	}
	nanoseconds, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil || len(fraction) != 9 {
		nanoseconds = 0 // a date(1) without %N
	}
	return time.Unix(seconds, nanoseconds), nil
}

// goArchitecture maps what uname -m says to GOARCH.
func goArchitecture(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l", "armv6l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return machine // ppc64le, s390x and riscv64 are the same in Go
}

func leadingDigits(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return text
	}
	return text[:end]
}

// parseOSRelease reads ID and ID_LIKE, quoted or not (os-release(5)).
func parseOSRelease(lines []string) (id, like string) {
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = value
		case "ID_LIKE":
			like = value
		}
	}
	return id, like
}

// parseFiles joins the lines of stat, sha256sum, base64 and the records.
func parseFiles(r report) (map[string]FileState, error) {
	files := map[string]FileState{}
	for _, value := range r["file"] {
		fields := strings.SplitN(value, "\t", 5)
		if len(fields) != 5 {
			return nil, fmt.Errorf("state of a file: %q", value)
		}
		mode, modeErr := strconv.ParseUint(fields[0], 16, 32)
		size, sizeErr := strconv.ParseInt(fields[3], 10, 64)
		if err := errors.Join(modeErr, sizeErr); err != nil {
			return nil, fmt.Errorf("state of %s: %w", fields[4], err)
		}
		files[fields[4]] = FileState{Mode: goMode(mode), Owner: fields[1], Group: fields[2], Size: size}
	}
	update := func(path string, change func(*FileState)) {
		if state, there := files[path]; there {
			change(&state)
			files[path] = state
		}
	}
	for _, value := range r["digest"] {
		digest, path, _ := strings.Cut(value, "  ")
		update(path, func(s *FileState) { s.SHA256 = digest })
	}
	for _, value := range r["recorded"] {
		digest, path, _ := strings.Cut(value, "\t")
		update(path, func(s *FileState) { s.Recorded = digest })
	}
	for _, value := range r["content"] {
		path, encoded, _ := strings.Cut(value, "\t")
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("content of %s: %w", path, err)
		}
		update(path, func(s *FileState) { s.Content = string(content) })
	}
	return files, nil
}

// goMode translates st_mode (inode(7)).
func goMode(raw uint64) fs.FileMode {
	mode := fs.FileMode(raw & 0o777)
	switch raw & 0o170000 {
	case 0o040000:
		mode |= fs.ModeDir
	case 0o120000:
		mode |= fs.ModeSymlink
	case 0o140000:
		mode |= fs.ModeSocket
	case 0o010000:
		mode |= fs.ModeNamedPipe
	case 0o060000:
		mode |= fs.ModeDevice
	case 0o020000:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if raw&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// parseDirs goes through the lines in order: entries follow their directory.
func parseDirs(text string) map[string][]string {
	dirs := map[string][]string{}
	current := ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch key {
		case "dir":
			current = value
			dirs[current] = []string{}
		case "entry":
			dirs[current] = append(dirs[current], value)
		}
	}
	return dirs
}

func parseDisks(values []string) (map[string]int64, error) {
	free := map[string]int64{}
	for _, value := range values {
		fields := strings.SplitN(value, "\t", 3)
		if len(fields) != 3 {
			continue // stat failed: a disk that cannot be read has no entry
		}
		blocks, blocksErr := strconv.ParseInt(fields[0], 10, 64)
		size, sizeErr := strconv.ParseInt(fields[1], 10, 64)
		if err := errors.Join(blocksErr, sizeErr); err != nil {
			return nil, fmt.Errorf("free space at %s: %w", fields[2], err)
		}
		free[fields[2]] = blocks * size
	}
	return free, nil
}
