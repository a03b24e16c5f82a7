package host

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

//go:embed observe.sh
var observeFunctions string

// ObserveSummary is what Config.Around gets of an observation.
const ObserveSummary = "observe the machine"

// Observe reads the state of the machine in one round trip. It changes nothing.
func (h *Host) Observe(ctx context.Context, q Query) (Facts, error) {
	if err := checkQuery(q); err != nil {
		return Facts{}, fmt.Errorf("observe %s: %w", h.Address(), err)
	}
	var err error
	if q.Script, err = withVars(q.Script, q.Vars); err != nil {
		return Facts{}, fmt.Errorf("observe %s: %w", h.Address(), err)
	}
	out, err := h.execute(ctx, job{summary: ObserveSummary, script: observeScript(q), readOnly: true})
	if err != nil {
		return Facts{}, err
	}
	facts, clock, err := parseFacts(out.stdout, q)
	if err != nil {
		return Facts{}, fmt.Errorf("observe %s: %w", h.Address(), err)
	}
	// The machine read its clock between the request and the first byte of the answer. The
	// middle is the best estimate, with half the time as its error.
	facts.ClockError = out.arrived.Sub(out.sent) / 2
	facts.ClockOffset = clock.Sub(out.sent.Add(facts.ClockError))
	return facts, nil
}

// UnitLog returns the last n lines of a unit's journal, for diagnostics. It is empty if the
// machine has no journal.
func (h *Host) UnitLog(ctx context.Context, unit string, n int) (string, error) {
	script := fmt.Sprintf("command -v journalctl >/dev/null || exit 0\njournalctl --quiet --no-pager --output=short "+
		"--lines=%d --unit=%s 2>/dev/null || true",
		n, shellescape.Quote(unit))
	out, err := h.execute(ctx, job{summary: "read the journal of " + unit, script: script, readOnly: true})
	return strings.TrimRight(out.stdout, "\n"), err
}

// unique returns the paths, each once.
func unique(paths []string) []string { return slices.Compact(slices.Sorted(slices.Values(paths))) }

func checkQuery(q Query) error {
	for _, name := range q.SharedEntries {
		if !filepath.IsLocal(name) || path.Base(name) != name {
			return fmt.Errorf("entry %q: want a file name", name)
		}
	}
	for _, list := range [][]string{q.Files, q.Binaries, q.Contents, q.Notes, q.Dirs, q.SharedDirs, q.Disks} {
		for _, p := range list {
			if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\n\t\\\x00") {
				return fmt.Errorf("path %q: want an absolute, clean path", p)
			}
		}
	}
	for _, list := range [][]string{q.Units, q.Commands} {
		for _, name := range list {
			if name == "" || strings.ContainsAny(name, " \n\t/*?[\x00") {
				return fmt.Errorf("%q is not the name of a unit or program", name)
			}
		}
	}
	return nil
}

// observeScript renders the calls that follow the fixed functions. It starts one program per
// list, not per item: each costs about a millisecond.
func observeScript(q Query) string {
	var b strings.Builder
	call := func(function string, words ...string) {
		b.WriteString(shellescape.QuoteCommand(append([]string{function}, words...)) + "\n")
	}
	all := func(function string, words []string) {
		if len(words) > 0 {
			call(function, words...)
		}
	}
	each := func(function string, words []string) {
		for _, word := range words {
			call(function, word)
		}
	}
	b.WriteString(withoutComments(observeFunctions))
	call("basics")
	hashed := unique(slices.Concat(q.Files, q.Contents))
	all("files", slices.Concat(hashed, q.Notes, q.Binaries))
	all("digests", hashed)
	all("contents", unique(q.Contents))
	all("notes", unique(q.Notes))
	all("binaries", q.Binaries)
	each("dir", q.Dirs)
	for _, shared := range unique(q.SharedDirs) {
		call("shared_dir", append([]string{shared, strconv.Itoa(MaxShared + 1)}, q.SharedEntries...)...)
	}
	all("units", q.Units)
	if len(q.Ports) > 0 {
		call("listeners")
	}
	each("disk", q.Disks)
	all("programs", q.Commands)
	if q.Script != "" {
		call("script", string(q.Script))
	}
	b.WriteString("printf 'end\\t\\n'\n")
	return b.String()
}
