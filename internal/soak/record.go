package soak

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/filelock"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// record is the file with the points that were cut, so that an exhaustive test can be spread over
// several runs of kube-lab. A nil record remembers nothing.
type record struct {
	path   string
	commit string                     // of this checkout
	Tracks map[string][]recordedPoint `json:"tracks"`
}

// recordedPoint is one point of a track.
type recordedPoint struct {
	Side cut.Side `json:"side"`
	cut.Key
	// Commit is the commit at which it was listed, or at which it was cut last.
	Commit string `json:"commit"`
	// Listed is the commit of the last run that listed it. "" says that a run of a later commit did not: the command or
	// request is no longer there.
	Listed string `json:"listed,omitempty"`
	Cut    bool   `json:"cut"`              // and the next apply converged
	Failed bool   `json:"failed,omitempty"` // it was cut, and the next apply did not converge
}

// Coverage is how many points of an operation a record has, without those that are no longer there.
type Coverage struct {
	Operation string
	Points    int
	Cut       int // and the next apply converged
	Failed    int // it was cut, and the next apply did not converge
	Commits   []string
}

// ReadCoverage returns what the record in the file at path says of each operation, in the order of their names.
func ReadCoverage(path string) ([]Coverage, error) {
	r := &record{path: path}
	if err := r.read(); err != nil {
		return nil, err
	}
	var all []Coverage
	for _, track := range sortedKeys(r.Tracks) {
		c, commits := Coverage{Operation: track}, map[string]bool{}
		for _, p := range r.Tracks[track] {
			if p.Listed == "" {
				continue
			}
			c.Points++
			switch {
			case p.Cut:
				c.Cut++
				commits[short(p.Commit)] = true
			case p.Failed:
				c.Failed++
				commits[short(p.Commit)] = true
			}
		}
		c.Commits = sortedKeys(commits)
		all = append(all, c)
	}
	return all, nil
}

// openRecord reads the file at path, if there is one. "" means none.
func openRecord(ctx context.Context, path string) (*record, error) {
	if path == "" {
		return nil, nil
	}
	commit, err := build.Commit(ctx)
	if err != nil {
		return nil, err
	}
	r := &record{path: path, commit: commit, Tracks: map[string][]recordedPoint{}}
	if err := r.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

// errRecordInUse means that two runs would overwrite each other's points.
var errRecordInUse = errors.New("another run records its points there: give each run a file of its own")

// lockRecord keeps other runs from the file at path until unlock, or the end of the process. "" means none.
func lockRecord(ctx context.Context, path string) (unlock func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the recorded points: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := filelock.Lock(ctx, file, func() { cancel(errRecordInUse) }); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the recorded points in %s: %w", path, cmp.Or(context.Cause(ctx), err)),
			file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// errOtherCommit means that the points of a run would be those of two commits.
var errOtherCommit = errors.New("the checkout has changed since the run began")

// sameCommit returns an error if the checkout has changed: the provider is built of it each time that a scenario starts
// again.
func (r *record) sameCommit(ctx context.Context) error {
	if r == nil {
		return nil
	}
	now, err := build.CommitSince(ctx, r.commit)
	if err == nil && now != r.commit {
		err = fmt.Errorf("%w at commit %s, so %s would mix the points of two: run it again", errOtherCommit,
			short(r.commit), r.path)
	}
	return err
}

func (r *record) read() error {
	text, err := os.ReadFile(r.path)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && r.Tracks == nil {
		err = fmt.Errorf("%s has no tracks", r.path)
	}
	if err != nil {
		return fmt.Errorf("read the recorded points: %w", err)
	}
	return nil
}

// String describes what was cut, one track per line.
func (r *record) String() string {
	if r == nil || len(r.Tracks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "soak: going on with the points that %s does not have yet\n", r.path)
	for _, track := range sortedKeys(r.Tracks) {
		total := 0
		commits := map[string]int{}
		for _, p := range r.Tracks[track] {
			if p.Listed == "" {
				continue
			}
			if total++; p.Cut {
				commits[p.Commit]++
			}
		}
		fmt.Fprintf(&b, "  %s: %d points, %s\n", track, total, cutAt(commits))
	}
	return b.String()
}

// cutAt describes how many points were cut at which commits.
func cutAt(commits map[string]int) string {
	var all []string
	for _, commit := range sortedKeys(commits) {
		all = append(all, fmt.Sprintf("%d cut at commit %s", commits[commit], short(commit)))
	}
	if len(all) == 0 {
		return "none cut"
	}
	return strings.Join(all, ", ")
}

// short returns a hash in 12 digits.
func short(commit string) string {
	hash, dirty, _ := strings.Cut(commit, "-")
	if hash = hash[:min(len(hash), 12)]; dirty != "" {
		hash += "-" + dirty
	}
	return hash
}

// load returns the points of a track. Those that only other commits have listed may no longer exist: they are not
// tried, unless something was wrong after a cut there.
func (r *record) load(track string) []*point {
	if r == nil {
		return nil
	}
	var all []*point
	for _, p := range r.Tracks[track] {
		loaded := &point{at: cut.Point{Side: p.Side, Key: p.Key}, here: p.Listed == r.commit}
		switch {
		case p.Cut:
			loaded.commit = p.Commit
		case p.Failed:
			loaded.failedAt = p.Commit
		default:
			loaded.listedAt = p.Commit
		}
		all = append(all, loaded)
	}
	return all
}

// save writes the points of a track, once a run that was not interrupted has listed them: before, they would replace
// what earlier runs have recorded. A point that no run of this commit has listed is kept as one that is no longer
// there: a later run may list it again, as some points are reached only after an interruption. One after whose cut
// something was wrong stays so until it is cut again.
func (r *record) save(track string, c *cursor) error {
	if r == nil || !c.listed {
		return nil
	}
	all := make([]recordedPoint, 0, len(c.points))
	for _, p := range c.points {
		saved := recordedPoint{Side: p.at.Side, Key: p.at.Key, Commit: r.commit, Cut: p.cut, Failed: p.failed}
		switch {
		case p.cut, p.failed:
		case p.commit != "":
			saved.Commit, saved.Cut = p.commit, true
		case p.failedAt != "":
			saved.Commit, saved.Failed = p.failedAt, true
		case !p.exists():
			saved.Commit = cmp.Or(p.listedAt, r.commit)
		}
		if p.exists() {
			saved.Listed = r.commit
		}
		all = append(all, saved)
	}
	r.Tracks[track] = all
	return jsonfile.Write(r.path, r, 0o644)
}
