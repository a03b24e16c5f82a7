package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed staging.sh
var stagingFunctions string

//go:embed apply.sh
var applyFunctions string

// Apply makes the change in one round trip. An unchanged file is not written and keeps its
// inode.
func (h *Host) Apply(ctx context.Context, c Change) (Applied, error) {
	if err := checkChange(c); err != nil {
		return Applied{}, fmt.Errorf("change %s: %w", h.Address(), err)
	}
	summary := applySummary(c)
	var err error
	if c.Script, err = withVars(c.Script, c.Vars); err != nil {
		return Applied{}, fmt.Errorf("change %s: %w", h.Address(), err)
	}
	digests, content := applyInput(c.Files)
	out, err := h.execute(ctx, job{
		summary: summary,
		script:  applyScript(c, newToken(), len(digests)),
		stdin:   bytes.NewReader(append(digests, content...)),
	})
	if err != nil {
		return Applied{}, err
	}
	return parseApplied(out.stdout, changePaths(c))
}

func applySummary(c Change) string {
	var paths []string
	for _, f := range c.Files {
		paths = append(paths, f.Path)
	}
	for _, p := range c.Remove {
		paths = append(paths, "-"+p)
	}
	const shown = 3 // the summary is part of every error's text
	if more := len(paths) - shown; more > 0 {
		paths = append(paths[:shown], fmt.Sprintf("and %d more", more))
	}
	if len(paths) == 0 {
		paths = append(paths, firstLine(c.Script))
	}
	return "apply " + strings.Join(paths, " ")
}

// applyInput returns standard input: the digests in sha256sum's format, then the content of all
// files in order. Not even a digest is on the command line: the digest of a short password can
// be guessed.
func applyInput(files []File) (digests, content []byte) {
	var list, all bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(f.Content), f.Path)
		all.Write(f.Content)
	}
	return list.Bytes(), all.Bytes()
}

// applyScript renders the calls that follow the fixed functions. It is pure, and contains only
// path, size, mode and owner of the files.
func applyScript(c Change, token string, digestBytes int) string {
	var b strings.Builder
	call := func(words ...string) { b.WriteString(shellescape.QuoteCommand(words) + "\n") }
	b.WriteString(withoutComments(flushFunction + stagingFunctions + applyFunctions))
	fmt.Fprintf(&b, "token=%s comment=%s\nids='' same='' dir_states='' file_states=''\n", token, accountComment)
	for _, u := range c.Users {
		call(append([]string{"user", u.Name}, u.Groups...)...)
	}
	if len(c.Dirs) > 0 {
		fmt.Fprintf(&b, "dir_states=$(states %s)\n", quotePaths(c.Dirs, func(d Dir) string { return d.Path }))
	}
	for _, d := range c.Dirs {
		call("dir", d.Path, pathID(d.Path), octal(d.Mode), ownership(d.Owner, d.Group), rawMode(0o040000, d.Mode))
	}
	if len(c.Files) > 0 {
		fmt.Fprintf(&b, "same=$(head -c %d | sha256sum --check 2>/dev/null || true)\n", digestBytes)
		fmt.Fprintf(&b, "file_states=$(states %s)\n", quotePaths(c.Files, func(f File) string { return f.Path }))
	}
	for _, f := range c.Files {
		call("stage", f.Path, pathID(f.Path), strconv.Itoa(len(f.Content)), octal(f.Mode), ownership(f.Owner, f.Group),
			rawMode(0o100000, f.Mode), octal(0o777&^(f.Mode&0o600)))
	}
	b.WriteString("commit\n")
	for _, l := range c.Links {
		call("link", l.Path, pathID(l.Path), l.Target)
	}
	for _, p := range c.Remove {
		call("gone", p, pathID(p))
	}
	b.WriteString("flush_changes\n")
	call(append([]string{"reload_units"}, unitNames(c)...)...)
	b.WriteString("report\n")
	if c.Script != "" {
		b.WriteString(`CHANGED="$changed" sh -euc ` + shellescape.Quote(string(c.Script)) + " kube </dev/null\n")
	}
	call(append([]string{"finished"}, changeIDs(c)...)...)
	return b.String()
}

func quotePaths[T any](items []T, path func(T) string) string {
	var words []string
	for _, item := range items {
		words = append(words, path(item))
	}
	return shellescape.QuoteCommand(words)
}

// alteredDir has a mark for each path that was altered since the last Script that completed (apply.sh).
const alteredDir = "/run/kube/changed"

// AlteredMark returns the path of a file that exists, until the next boot, while path is altered and the Script of that
// Change has not completed: what Script would have restarted still runs with the old content.
func AlteredMark(path string) string { return alteredDir + "/" + pathID(path) }

// pathID returns the name of the file that records that path was altered, because a path
// contains slashes.
func pathID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

func changeIDs(c Change) []string {
	var ids []string
	if len(c.Users) > 0 {
		ids = append(ids, "accounts")
	}
	for _, p := range changePaths(c) {
		ids = append(ids, pathID(p))
	}
	return ids
}

func changePaths(c Change) []string {
	var paths []string
	for _, d := range c.Dirs {
		paths = append(paths, d.Path)
	}
	for _, f := range c.Files {
		paths = append(paths, f.Path)
	}
	for _, l := range c.Links {
		paths = append(paths, l.Path)
	}
	return append(paths, c.Remove...)
}

// unitNames returns the units whose unit file, or drop-in, the change contains.
func unitNames(c Change) []string {
	const units = "/etc/systemd/system/"
	var names []string
	for _, p := range changePaths(c) {
		name, below := strings.CutPrefix(p, units)
		name, _, _ = strings.Cut(name, "/")
		name = strings.TrimSuffix(name, ".d")
		if below && path.Ext(name) != "" && !strings.HasSuffix(name, ".wants") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func ownership(owner, group string) string {
	if owner == "" {
		owner = "root"
	}
	if group == "" {
		group = "root"
	}
	return owner + ":" + group
}

func octal(mode fs.FileMode) string { return strconv.FormatUint(uint64(mode.Perm()), 8) }

// rawMode returns st_mode as `stat -c %f` prints it.
func rawMode(kind uint64, mode fs.FileMode) string {
	return strconv.FormatUint(kind|uint64(mode.Perm()), 16)
}

// parseApplied separates the list of altered paths, a subset of paths, from the Script's
// output.
func parseApplied(stdout string, paths []string) (Applied, error) {
	var applied Applied
	for rest := stdout; ; {
		line, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return Applied{}, fmt.Errorf("the machine's report is incomplete: %s", problem.Quote(rest))
		}
		if line == "--" {
			applied.Output = after
			slices.Sort(applied.Changed)
			applied.Changed = slices.Compact(applied.Changed)
			return applied, nil
		}
		if !slices.Contains(paths, line) {
			return Applied{}, unexpectedAnswer("path", line)
		}
		applied.Changed = append(applied.Changed, line)
		rest = after
	}
}
