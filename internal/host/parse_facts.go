package host

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var errCutOff = errors.New("the machine's answer is incomplete")

// report is the parsed answer of observe.sh: the values by key, in order.
type report map[string][]string

func parseReport(text string) (report, error) {
	r := report{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok {
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

// parseFacts parses the answer to q. It accepts only what was queried. clock is the machine's
// time at the start.
func parseFacts(text string, q Query) (facts Facts, clock time.Time, err error) {
	r, err := parseReport(text)
	if err != nil {
		return Facts{}, time.Time{}, err
	}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	clock, err = parseClock(r.first("clock"))
	keep(err)
	keep(facts.parseBasics(r))
	facts.Commands, err = parseCommands(r["command"], q.Commands)
	keep(err)
	facts.Files, err = parseFiles(r, q)
	keep(err)
	facts.Dirs, facts.Crowded, err = parseDirs(text, q)
	keep(err)
	facts.Units, err = parseUnits(r["unit"], q.Units)
	keep(err)
	facts.Listeners = parseListeners(r, q.Ports)
	facts.DiskFree, err = parseDisks(r["disk"], q.Disks)
	keep(err)
	facts.Output, err = parseBase64("output of the script", r.first("output"))
	keep(err)
	if err := errors.Join(errs...); err != nil {
		return Facts{}, time.Time{}, err
	}
	return facts, clock, nil
}

// parseBasics parses the facts that are queried on every machine.
func (f *Facts) parseBasics(r report) error {
	var errs [6]error
	f.MachineID, errs[0] = matchingOrEmpty(machineIDPattern, "/etc/machine-id", r.first("machine-id"), "uninitialized")
	f.BootID, errs[1] = matchingOrEmpty(bootIDPattern, "the kernel's boot id", r.first("boot-id"))
	f.Hostname, errs[2] = matchingOrEmpty(hostnamePattern, "the host name", r.first("hostname"), "(none)")
	f.Architecture, errs[3] = goArchitecture(r.first("machine"))
	f.Systemd = systemdPattern.FindString(r.first("systemd"))
	if text := r.first("systemd"); text != "" && f.Systemd == "" {
		errs[4] = fmt.Errorf("the version of systemd reads %s", problem.Quote(text))
	}
	f.OS, f.OSLike, errs[5] = parseOSRelease(r["os"])
	return errors.Join(errs[:]...)
}

func parseCommands(values, asked []string) (map[string]string, error) {
	commands := map[string]string{}
	for _, value := range values {
		name, place, _ := strings.Cut(value, "\t")
		if !slices.Contains(asked, name) {
			return nil, unexpectedAnswer("program", name)
		}
		if !strings.HasPrefix(place, "/") {
			continue
		}
		at, err := matching(programPattern, "the place of "+name, place)
		if err != nil {
			return nil, err
		}
		commands[name] = at
	}
	return commands, nil
}

// unexpectedAnswer returns the error for an answer that was not queried.
func unexpectedAnswer(what, name string) error {
	return fmt.Errorf("the machine reports a %s that was not requested: %s", what, problem.Quote(name))
}

// parseFiles combines what stat, sha256sum, head and the records say.
func parseFiles(r report, q Query) (map[string]FileState, error) {
	asked := slices.Concat(q.Files, q.Contents, q.Notes, q.Binaries)
	files := map[string]FileState{}
	for _, value := range r["file"] {
		fields := strings.SplitN(value, "\t", 5)
		if len(fields) != 5 {
			return nil, fmt.Errorf("state of a file: %s", problem.Quote(value))
		}
		if !slices.Contains(asked, fields[4]) {
			return nil, unexpectedAnswer("file", fields[4])
		}
		mode, modeErr := parseMode(fields[0])
		size, sizeErr := parseCount("size", fields[3], math.MaxInt64)
		if err := errors.Join(modeErr, sizeErr); err != nil {
			return nil, fmt.Errorf("state of %s: %w", fields[4], err)
		}
		files[fields[4]] = FileState{
			Mode: mode, Owner: matchingOrUnnamed(ownerPattern, fields[1]),
			Group: matchingOrUnnamed(ownerPattern, fields[2]), Size: size,
		}
	}
	update := func(path string, change func(*FileState)) {
		if state, there := files[path]; there {
			change(&state)
			files[path] = state
		}
	}
	for _, value := range r["digest"] {
		digest, path, _ := strings.Cut(value, "  ")
		update(path, func(s *FileState) { s.SHA256 = digestOrEmpty(digest) })
	}
	for _, value := range r["recorded"] {
		digest, path, _ := strings.Cut(value, "\t")
		update(path, func(s *FileState) { s.Recorded = digestOrEmpty(digest) })
	}
	text, err := parseBase64("contents of files", r.first("contents"))
	if err != nil {
		return nil, err
	}
	contents, err := splitContents(text, unique(q.Contents))
	if err != nil {
		return nil, err
	}
	for path, content := range contents {
		update(path, func(s *FileState) { s.Content = content })
	}
	return files, parseNotes(files, r.first("notes"), q.Notes)
}

// maxNote is the size of a note. The machine sends one byte more.
const maxNote = 64 << 10

// parseNotes adds the contents of the notes to their states, and removes what counts as missing.
func parseNotes(files map[string]FileState, value string, paths []string) error {
	mark, encoded, _ := strings.Cut(value, "\t")
	mark, err := matchingOrEmpty(bootIDPattern, "the mark of notes", mark)
	if err != nil {
		return err
	}
	text, err := parseBase64("notes", encoded)
	if err != nil {
		return err
	}
	contents := map[string]string{}
	if mark != "" {
		for part := range strings.SplitSeq(text, mark+" ") {
			path, content, _ := strings.Cut(part, "\n")
			contents[path] = content
		}
	}
	for _, path := range paths {
		state, there := files[path]
		content, read := contents[path]
		if !there || !read || !state.Mode.IsRegular() || state.Owner != "root" || state.Size > maxNote ||
			len(content) > maxNote {
			delete(files, path)
			continue
		}
		state.Content = content
		files[path] = state
	}
	return nil
}

// splitContents returns the contents of files by path, from what "head -v" prints of them: a header before each, and an
// empty line before all headers but the first. A file that contains the header of another one that exists is an error,
// so that no file can pretend what is in another.
func splitContents(text string, paths []string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	type part struct {
		path       string
		start, end int // of the header
	}
	var parts []part
	text = "\n" + text
	for _, path := range paths {
		header := "\n==> " + path + " <==\n"
		start := strings.Index(text, header)
		if start < 0 {
			continue
		}
		if strings.LastIndex(text, header) != start {
			return nil, fmt.Errorf("the contents of files contain the header of %s twice", path)
		}
		parts = append(parts, part{path, start, start + len(header)})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.start, b.start) })
	if len(parts) == 0 || parts[0].start != 0 {
		return nil, errors.New("the contents of files begin with no header of one that was requested")
	}
	contents := map[string]string{}
	for i, p := range parts {
		end := len(text)
		if i+1 < len(parts) {
			end = parts[i+1].start
		}
		if end < p.end {
			return nil, fmt.Errorf("the content of %s begins with a header", p.path)
		}
		contents[p.path] = text[p.end:end]
	}
	return contents, nil
}

// parseDirs processes the lines in order: entries follow their directory. Names are in their
// displayed form: a name with invisible characters does not belong to the provider, but is
// still listed. Of a shared directory, entries beyond the limit are dropped, and it counts as crowded.
func parseDirs(text string, q Query) (dirs map[string][]string, crowded map[string]bool, err error) {
	dirs = map[string][]string{}
	asked := slices.Concat(q.Dirs, q.SharedDirs)
	current := ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch key {
		case "dir":
			if !slices.Contains(asked, value) {
				return nil, nil, unexpectedAnswer("directory", value)
			}
			current = value
			dirs[current] = []string{}
		case "entry":
			if slices.Contains(q.SharedEntries, value) && slices.Contains(dirs[current], value) {
				continue // it is listed a second time
			}
			if slices.Contains(q.SharedDirs, current) && len(dirs[current]) >= MaxShared {
				if crowded == nil {
					crowded = map[string]bool{}
				}
				crowded[current] = true
				continue
			}
			if len(dirs[current]) >= maxEntries {
				return nil, nil, fmt.Errorf("%s has more than %d entries", current, maxEntries)
			}
			if current == "" || value == "" || len(value) > maxEntryName || strings.Contains(value, "/") {
				return nil, nil, fmt.Errorf("an entry of %s reads %s", current, problem.Quote(value))
			}
			dirs[current] = append(dirs[current], problem.Line(value))
		}
	}
	return dirs, crowded, nil
}

func parseDisks(values, asked []string) (map[string]int64, error) {
	free := map[string]int64{}
	for _, value := range values {
		fields := strings.SplitN(value, "\t", 3)
		if len(fields) != 3 {
			continue // stat failed: a disk that cannot be read has no entry
		}
		if !slices.Contains(asked, fields[2]) {
			return nil, unexpectedAnswer("disk", fields[2])
		}
		blocks, blocksErr := parseCount("blocks", fields[0], math.MaxInt64)
		size, sizeErr := parseCount("size of a block", fields[1], 1<<30)
		if err := errors.Join(blocksErr, sizeErr); err != nil {
			return nil, fmt.Errorf("free space at %s: %w", fields[2], err)
		}
		if size > 0 && blocks > math.MaxInt64/size {
			return nil, fmt.Errorf("free space at %s: %d blocks of %d bytes", fields[2], blocks, size)
		}
		free[fields[2]] = blocks * size
	}
	return free, nil
}
