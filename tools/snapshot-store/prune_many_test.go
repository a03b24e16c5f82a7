package main

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// removing is a directory that removes objects, and notes which ones it is asked to remove or about.
type removing struct {
	directory
	removed, asked []string
}

func (r *removing) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key := strings.TrimPrefix(q.URL.Path, "/"+bucket+"/")
	switch {
	case q.URL.Query().Has("versioning"):
		answer(w, "VersioningConfiguration")
	case q.URL.Query().Has("uploads"):
		answer(w, "ListMultipartUploadsResult")
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
	objects, removed := mostObjects, mostRemoved
	mostObjects, mostRemoved = 50, 20
	t.Cleanup(func() { mostObjects, mostRemoved = objects, removed })
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
