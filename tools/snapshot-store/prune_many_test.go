package main

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// removing is a directory that removes objects that are not locked. It notes which ones it removes, which it refuses to
// remove, and about which it is asked.
type removing struct {
	directory
	locked                  map[string]bool
	removed, refused, asked []string

	denied    bool // it does not say whether the bucket has versions
	versioned bool // it was asked for versions
}

func (r *removing) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key := strings.TrimPrefix(q.URL.Path, "/"+bucket+"/")
	switch {
	case q.URL.Query().Has("versioning") && r.denied:
		w.WriteHeader(http.StatusForbidden)
	case q.URL.Query().Has("versions"):
		r.versioned = true
		answer(w, "ListVersionsResult")
	case q.URL.Query().Has("versioning"):
		answer(w, "VersioningConfiguration")
	case q.URL.Query().Has("uploads"):
		answer(w, "ListMultipartUploadsResult")
	case q.Method == http.MethodDelete && r.locked[key]:
		r.refused = append(r.refused, key)
		w.WriteHeader(http.StatusForbidden)
	case q.Method == http.MethodHead && r.locked[key]:
		r.asked = append(r.asked, key)
		w.Header().Set("X-Amz-Object-Lock-Retain-Until-Date", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	case q.Method == http.MethodDelete:
		r.removed = append(r.removed, key)
		r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
		w.WriteHeader(http.StatusNoContent)
	default:
		if q.Method == http.MethodHead {
			r.asked = append(r.asked, key)
		}
		r.directory.ServeHTTP(w, q)
	}
}

// answer answers with an empty element.
func answer(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header+"<"+name+"></"+name+">")
}

// newRemoving returns such a directory with two verified snapshots, and a store that keeps both.
func newRemoving(t *testing.T, locked *lock) (*removing, *store) {
	t.Helper()
	r := &removing{directory: directory{objects: map[string][]byte{}}}
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	s := &server{t: t, url: front.URL}
	c, _ := s.config(func(c *config) { c.Recipients, c.recipients, c.Kept, c.ObjectLock = nil, nil, 2, locked })
	st := opened(t, c)
	for _, age := range []time.Duration{time.Second, 10 * time.Second} {
		r.directory.add(t, st, writeSnapshot(t, savedAgo(age), snapshotSize-32))
	}
	return r, st
}

func savedAgo(age time.Duration) string {
	return time.Now().UTC().Add(-age).Format(timeForm) + "-cp1.db"
}

// old adds snapshots with their manifests, each a minute older than the one before.
func (r *removing) old(st *store, count int, from time.Duration) {
	for n := range count {
		key := st.directory() + savedAgo(from+time.Duration(n)*time.Minute)
		r.keys = append(r.keys, key, key+manifestEnd)
	}
	slices.Sort(r.keys)
}

// TestPruneLockedUnasked: a server is not asked to remove what is locked for certain.
func TestPruneLockedUnasked(t *testing.T) {
	const day = 24 * time.Hour
	r, st := newRemoving(t, &lock{"compliance", 7})
	r.old(st, 500, time.Minute)
	r.old(st, 3, 8*day)
	free := slices.Clone(r.keys[:6])
	got, err := st.prune(t.Context())
	if want := (pruned{Kept: 2, Removed: 6, Locked: 1000}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, st.explain(err), want)
	}
	if !slices.Equal(r.removed, free) || len(r.asked) > 0 {
		t.Errorf("%d were removed, want the %d oldest; asked about %d", len(r.removed), len(free), len(r.asked))
	}
}

// TestPruneBacklog: what one run does not look at or does not remove is left to the next ones, the oldest first.
func TestPruneBacklog(t *testing.T) {
	objects, tried := mostObjects, mostTried
	mostObjects, mostTried = 50, 20
	t.Cleanup(func() { mostObjects, mostTried = objects, tried })
	const day = 24 * time.Hour
	r, st := newRemoving(t, nil)
	r.old(st, 60, 300*day)
	all := slices.Clone(r.keys)
	for n := range 6 {
		got, err := st.prune(t.Context())
		if want := (pruned{Kept: 2, Removed: 20}); err != nil || got != want {
			t.Fatalf("run %d: %+v, %v, want %+v", n+1, got, st.explain(err), want)
		}
		if want := all[:20*(n+1)]; !slices.Equal(r.removed, want) {
			t.Fatalf("run %d: removed %d objects, want the %d oldest", n+1, len(r.removed), len(want))
		}
	}
	if got, err := st.prune(t.Context()); err != nil || got != (pruned{Kept: 2}) || len(r.keys) != 4 {
		t.Errorf("nothing is left to remove: %+v, %v; %d objects stay", got, err, len(r.keys))
	}
}

// TestPruneLockedTried: what is locked without object_lock in the configuration is tried only so often in one run, and
// what is behind it is removed after some runs.
func TestPruneLockedTried(t *testing.T) {
	const day = 24 * time.Hour
	lockAll := func(r *removing) {
		r.locked = map[string]bool{}
		for _, key := range r.keys {
			r.locked[key] = true
		}
	}
	t.Run("tries", func(t *testing.T) {
		tried := mostTried
		mostTried = 20
		t.Cleanup(func() { mostTried = tried })
		r, st := newRemoving(t, nil)
		r.old(st, 60, 300*day)
		lockAll(r)
		got, err := st.prune(t.Context())
		if want := (pruned{Kept: 2, Locked: 20}); err != nil || got != want || len(r.refused) != 20 {
			t.Errorf("%+v, %v, %d refused, want %+v", got, st.explain(err), len(r.refused), want)
		}
	})
	t.Run("all locked", func(t *testing.T) {
		r, st := newRemoving(t, nil)
		r.old(st, 200, 300*day)
		lockAll(r)
		got, err := st.prune(t.Context())
		const most = lockedInARow * mostPlaces
		if want := (pruned{Kept: 2, Locked: most}); err != nil || got != want || len(r.refused) != most {
			t.Errorf("%+v, %v, %d refused, want %+v", got, st.explain(err), len(r.refused), want)
		}
	})
	t.Run("shortened lock", func(t *testing.T) {
		r, st := newRemoving(t, nil)
		r.old(st, 100, 300*day)
		lockAll(r)
		r.old(st, 20, 200*day)
		for run := 1; len(r.removed) < 40; run++ {
			if run > 200 {
				t.Fatalf("%d of 40 are removed", len(r.removed))
			}
			if _, err := st.prune(t.Context()); err != nil {
				t.Fatal(st.explain(err))
			}
		}
		if len(r.keys) != 204 {
			t.Errorf("%d objects stay, want 204", len(r.keys))
		}
	})
}

// TestRemoveOld: nothing is tried twice in a run, and a few that are locked do not keep it from the others.
func TestRemoveOld(t *testing.T) {
	old := make([]objectVersion, 1000)
	for n := range old {
		old[n].key = strconv.Itoa(n)
	}
	var tried []string
	run := func(locked func(n int) bool, random func(int) int) {
		tried = nil
		err := removeOld(old, random, func(v objectVersion) (bool, error) {
			tried = append(tried, v.key)
			n, err := strconv.Atoi(v.key)
			return locked(n), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if again := len(tried) - len(slices.Compact(slices.Sorted(slices.Values(tried)))); again > 0 {
			t.Errorf("%d are tried twice", again)
		}
	}
	first, last := func(int) int { return 0 }, func(n int) int { return n - 1 }
	for name, c := range map[string]struct {
		locked func(int) bool
		random func(int) int
		tried  int
	}{
		"none locked":            {func(int) bool { return false }, first, 1000},
		"19 of 20 locked":        {func(n int) bool { return n%20 > 0 }, first, 1000},
		"the first 30 locked":    {func(n int) bool { return n < 30 }, first, 1000},
		"all locked, the oldest": {func(int) bool { return true }, first, 100},
		"all locked, the newest": {func(int) bool { return true }, last, 100},
		"the first 500 locked":   {func(n int) bool { return n < 500 }, func(n int) int { return n / 2 }, 580},
	} {
		if run(c.locked, c.random); len(tried) != c.tried {
			t.Errorf("%s: %d are tried, want %d", name, len(tried), c.tried)
		}
	}
}

func TestLockHolds(t *testing.T) {
	now := time.Date(2026, 5, 8, 12, 0, 0, 0, time.UTC)
	week := &lock{"governance", 7}
	for name, c := range map[string]struct {
		lock     *lock
		snapshot string
		holds    bool
	}{
		"no lock":          {nil, "20260508T115900Z-cp1.db", false},
		"a minute old":     {week, "20260508T115900Z-cp1.db", true},
		"almost a week":    {week, "20260501T120001Z-cp1.db", true},
		"a week":           {week, "20260501T120000Z-cp1.db", false},
		"a clock behind":   {week, "20200101T000000Z-cp1.db", false},
		"a name, no time":  {week, "20269999T999999Z-cp1.db", false},
		"of another cause": {week, "", false},
	} {
		if got := c.lock.holds(c.snapshot, now); got != c.holds {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPruneVersionsUnread: if the bucket does not say whether it has versions, object lock says it, or a note.
func TestPruneVersionsUnread(t *testing.T) {
	const note = "versioning cannot be read"
	for name, c := range map[string]struct {
		denied    bool
		locked    *lock
		removed   int
		versioned bool
		noted     bool
	}{
		"no versions":              {false, nil, 6, false, false},
		"denied":                   {true, nil, 6, false, true},
		"denied, with object lock": {true, &lock{"compliance", 7}, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, st := newRemoving(t, c.locked)
			r.denied = c.denied
			r.old(st, 3, 300*24*time.Hour)
			var out strings.Builder
			err := runPrune(t.Context(), st, nil, nil, &out)
			if err != nil || len(r.removed) != c.removed || r.versioned != c.versioned ||
				strings.Contains(out.String(), note) != c.noted {
				t.Errorf("%v, removed %d, asked for versions: %t, says %s", st.explain(err), len(r.removed), r.versioned, &out)
			}
		})
	}
}
