package soak

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// recordAt opens the file as a checkout of that commit.
func recordAt(t *testing.T, path, commit string) *record {
	t.Helper()
	r, err := openRecord(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r.commit = commit
	return r
}

// TestRecord spreads a sweep over runs of kube-lab, the last one at another commit.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	commands := []string{"x!", "y!"}
	first := recordAt(t, path, "1111")
	c := (&Env{record: first}).newCursor("change")
	for n := range 3 { // the list, one point that passes, one that does not
		p := c.next()
		var err error
		if n == 2 {
			err = errors.New("a learner is left")
		}
		c.ran(p, runOf(p, commands...), err)
		if err := first.save("change", c); err != nil {
			t.Fatal(err)
		}
	}
	again := &Env{record: recordAt(t, path, "1111")}
	if got, want := tryAll(t, again.newCursor("change"), commands), []string{
		"", "after a: x! (1)", "before a: y! (1)", "after a: y! (1)",
	}; !slices.Equal(got, want) {
		t.Errorf("the next run tried %q, want %q", got, want)
	}
	if got := tryAll(t, again.newCursor("replace"), commands); len(got) != 5 {
		t.Errorf("another track tried %q", got)
	}
	other := (&Env{record: recordAt(t, path, "2222")}).newCursor("change")
	tryAll(t, other, []string{"x!", "new!"})
	track := newTrack(operation{name: "change"}, other)
	r := track.result()
	if want := "1 cut by earlier runs at commit 1111"; !strings.Contains(r.Detail, want) {
		t.Errorf("the detail lacks %q: %s", want, r.Detail)
	}
	if want := "2 points of earlier runs are no longer there"; !strings.Contains(r.Detail, want) {
		t.Errorf("the detail lacks %q: %s", want, r.Detail)
	}
}

// TestFailedPointOfAnotherCommit: it stays in the record until it is cut and the next apply converges, also while it is
// not reached. A point that was not cut stays as one that is no longer there.
func TestFailedPointOfAnotherCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	r := recordAt(t, path, "1111")
	c := (&Env{record: r}).newCursor("change")
	c.ran(cut.Point{}, runOf(cut.Point{}, "x!", "old!"), nil)
	p := c.next()
	c.ran(p, runOf(p, "x!", "old!"), errors.New("a learner is left"))
	if err := r.save("change", c); err != nil {
		t.Fatal(err)
	}
	at := cut.Key{Machine: "a", Command: "x!", Occurrence: 1}
	recorded := func(commit string, cuts int, commands ...string) (points []recordedPoint, result Result) {
		t.Helper()
		r := recordAt(t, path, commit)
		track := newTrack(operation{name: "change"}, (&Env{record: r}).newCursor("change"))
		for range 1 + cuts {
			p := track.next()
			track.note(p, runOf(p, commands...), nil, 0)
		}
		if err := r.save("change", track.cursor); err != nil {
			t.Fatal(err)
		}
		return recordAt(t, path, commit).Tracks["change"], track.result()
	}
	points, result := recorded("2222", 0, "x!")
	old := cut.Key{Machine: "a", Command: "old!", Occurrence: 1}
	if want := []recordedPoint{
		{Side: cut.Before, Key: at, Commit: "1111", Listed: "2222", Failed: true},
		{Side: cut.After, Key: at, Commit: "2222", Listed: "2222"},
		{Side: cut.Before, Key: old, Commit: "1111"},
		{Side: cut.After, Key: old, Commit: "1111"},
	}; !reflect.DeepEqual(points, want) {
		t.Errorf("the record has %+v, want %+v", points, want)
	}
	if want := "1 failed in earlier runs at commit 1111"; result.Tried-result.Passed != 1 ||
		!strings.Contains(result.Detail, want) {
		t.Errorf("the detail lacks %q: %+v", want, result)
	}
	points, _ = recorded("3333", maxAttempts, "new!")
	if want := (recordedPoint{Side: cut.Before, Key: at, Commit: "1111", Failed: true}); points[0] != want {
		t.Errorf("the record has %+v, want %+v", points[0], want)
	}
	points, result = recorded("4444", 1, "x!")
	if want := (recordedPoint{Side: cut.Before, Key: at, Commit: "4444", Listed: "4444", Cut: true}); points[0] != want ||
		result.Passed != result.Tried {
		t.Errorf("the record has %+v, want %+v, and the result is %+v", points[0], want, result)
	}
}

// TestListingFails: a run that fails lists nothing, so what earlier runs have recorded stays until another one passes.
func TestListingFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	r := recordAt(t, path, "1111")
	earlier := (&Env{record: r}).newCursor("change")
	tryAll(t, earlier, []string{"x!", "y!"})
	if err := r.save("change", earlier); err != nil {
		t.Fatal(err)
	}
	r = recordAt(t, path, "2222")
	track := newTrack(operation{name: "change"}, (&Env{record: r}).newCursor("change"))
	for n := range maxFailures {
		if p := track.next(); track.done() || p != (cut.Point{}) {
			t.Fatalf("after %d failures it is done: %v, or interrupts %v", n, track.done(), p)
		}
		track.note(cut.Point{}, runOf(cut.Point{}, "x!"), errors.New("SSH does not answer"), 0)
		if err := r.save("change", track.cursor); err != nil {
			t.Fatal(err)
		}
	}
	if got := track.result(); !track.done() || got.Tried-got.Passed != maxFailures {
		t.Errorf("the track is done: %v, with %+v", track.done(), got)
	}
	all, err := ReadCoverage(path)
	if want := []Coverage{{Operation: "change", Points: 4, Cut: 4, Commits: []string{"1111"}}}; err != nil ||
		!reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v; want %+v", all, err, want)
	}
	track = newTrack(operation{name: "change"}, (&Env{record: r}).newCursor("change"))
	track.note(cut.Point{}, runOf(cut.Point{}, "x!"), errors.New("SSH does not answer"), 0)
	if got := tryAll(t, track.cursor, []string{"x!", "new!"}); !slices.Equal(got, []string{
		"", "before a: new! (1)", "after a: new! (1)",
	}) {
		t.Errorf("after a failure, it tried %q", got)
	}
}

// TestRenamedCommand: what was cut at a command that a later commit does not have any more does not count, and counts
// again when a run of that commit reaches it after an interruption, also in the next run of kube-lab.
func TestRenamedCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	run := func(commit string, runs ...[]string) (cut, points int, detail string) {
		r := recordAt(t, path, commit)
		c := (&Env{record: r}).newCursor("change")
		tryAll(t, c, runs...)
		if err := r.save("change", c); err != nil {
			t.Fatal(err)
		}
		all, err := ReadCoverage(path)
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0].Cut, all[0].Points, newTrack(operation{name: "change"}, c).result().Detail
	}
	if cut, points, _ := run("1111", []string{"x!", "old!"}); cut != 4 || points != 4 {
		t.Errorf("%d of %d points are cut, want 4", cut, points)
	}
	cut, points, detail := run("2222", []string{"x!", "new!"})
	if cut != 4 || points != 4 || !strings.Contains(detail, "2 points of earlier runs are no longer there") {
		t.Errorf("after the command was renamed, %d of %d points are cut, want 4: %s", cut, points, detail)
	}
	// Only runs that are interrupted reach the old command again.
	undisturbed := []string{"x!", "third!"}
	for _, runs := range [][][]string{{undisturbed, {"x!", "old!", "third!"}}, {undisturbed}} {
		if cut, points, _ := run("3333", runs...); cut != 6 || points != 6 {
			t.Errorf("%d of %d points are cut, want 6", cut, points)
		}
	}
}

// TestCoverage: what a record of two commits says of its operations.
func TestCoverage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	if _, err := ReadCoverage(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	points := func(commits ...string) (all []*point) {
		for i, commit := range commits {
			at := cut.Point{Side: cut.After, Key: cut.Key{Machine: "a", Command: "x", Occurrence: i + 1}}
			all = append(all, &point{at: at, commit: commit, step: i + 1})
		}
		return all
	}
	r := recordAt(t, path, "2222222222222222")
	failed := points("1111111111111111", "", "", "1111111111111111")
	failed[1].failed, failed[3].step = true, 0 // the last one is no longer there
	for track, points := range map[string][]*point{"change": failed, "create": points("")} {
		if err := r.save(track, &cursor{listed: true, points: points}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadCoverage(path)
	want := []Coverage{
		{Operation: "change", Points: 3, Cut: 1, Failed: 1, Commits: []string{"111111111111", "222222222222"}},
		{Operation: "create", Points: 1},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestCheckoutChanges: a run whose checkout changes ends before it records points of another commit.
func TestCheckoutChanges(t *testing.T) {
	r, err := openRecord(t.Context(), filepath.Join(t.TempDir(), "cursor.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sameCommit(t.Context()); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	r.commit = "1111"
	if err := r.sameCommit(t.Context()); !errors.Is(err, errOtherCommit) {
		t.Errorf("another commit is built: %v", err)
	}
	if err := (*record)(nil).sameCommit(t.Context()); err != nil {
		t.Errorf("without a record: %v", err)
	}
}

// TestRecordInUse: two runs do not record into one file.
func TestRecordInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cursor.json")
	unlock, err := lockRecord(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRecord(t.Context(), path); !errors.Is(err, errRecordInUse) {
		t.Errorf("another run: %v", err)
	}
	unlock()
	for _, path := range []string{path, ""} {
		unlock, err := lockRecord(t.Context(), path)
		if err != nil {
			t.Fatalf("%q after the run: %v", path, err)
		}
		unlock()
	}
}

func TestNoRecord(t *testing.T) {
	r, err := openRecord(t.Context(), "")
	if err != nil || r != nil || r.load("x") != nil || r.save("x", &cursor{listed: true}) != nil {
		t.Errorf("no file is %v, %v", r, err)
	}
	path := filepath.Join(t.TempDir(), "cursor.json")
	for _, text := range []string{"{", "", `{"tracks": null}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openRecord(t.Context(), path); err == nil {
			t.Errorf("a file with %q is accepted", text)
		}
	}
}

func TestRecordText(t *testing.T) {
	at := cut.Key{Machine: "a", Command: "x", Occurrence: 1}
	r := &record{path: "cursor.json", Tracks: map[string][]recordedPoint{"change": {
		{Side: cut.Before, Key: at, Commit: "0123456789abcdef", Cut: true, Listed: "fedcba9876543210-dirty"},
		{Side: cut.After, Key: at, Commit: "fedcba9876543210-dirty", Listed: "fedcba9876543210-dirty"},
		{Side: cut.During, Key: at, Commit: "0123456789abcdef", Cut: true},
	}}}
	want := "soak: going on with the points that cursor.json does not have yet\n" +
		"  change: 2 points, 1 cut at commit 0123456789ab\n"
	if r.String() != want {
		t.Errorf("it is described as %q, want %q", r, want)
	}
	if none := (*record)(nil); none.String() != "" {
		t.Errorf("no file is described as %q", none)
	}
}
