package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// snapshotSize is the size of the snapshots in a directory.
const snapshotSize = 1<<12 + 32

// directory is a bucket with many objects, which lists them in order and by pages, and answers nothing else but
// requests for objects.
type directory struct {
	keys     []string
	objects  map[string][]byte // those that have a content
	listings int
}

func (d *directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("list-type") {
		d.object(w, strings.TrimPrefix(r.URL.Path, "/"+bucket+"/"))
		return
	}
	d.listings++
	from := max(r.URL.Query().Get("start-after"), r.URL.Query().Get("continuation-token"))
	first, found := slices.BinarySearch(d.keys, from)
	if found {
		first++
	}
	page := d.keys[first:min(first+1000, len(d.keys))]
	more := first+len(page) < len(d.keys)
	text := listPage(more, page...)
	if more {
		text = strings.Replace(text, "next", page[len(page)-1], 1)
	}
	text = strings.ReplaceAll(text, "<Size>1</Size>", fmt.Sprintf("<Size>%d</Size>", snapshotSize))
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, text)
}

func (d *directory) object(w http.ResponseWriter, key string) {
	content, there := d.objects[key]
	if !there {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
		return
	}
	w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
	w.Header().Set("ETag", `"e"`)
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content)
}

// add adds a snapshot that is verified.
func (d *directory) add(t *testing.T, st *store, file string) {
	t.Helper()
	size, digest, err := digestOf(file)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest{
		Format: manifestFormat, Snapshot: filepath.Base(file), Cluster: cluster, ClusterName: "prod", Size: size,
		SHA256: digest, Stored: stored{Size: size, SHA256: digest, ETag: "e"},
	}
	key := st.directory() + m.key()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if d.objects[key], err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	d.objects[key+manifestEnd] = text
	d.keys = append(d.keys, key, key+manifestEnd)
	slices.Sort(d.keys)
}

// TestManyObjects fetches by name and the newest one from a directory with more objects than are looked at.
func TestManyObjects(t *testing.T) {
	d := &directory{objects: map[string][]byte{}}
	front := httptest.NewServer(d)
	t.Cleanup(front.Close)
	s := &server{t: t, url: front.URL}
	c, _ := s.config(func(c *config) { c.Recipients, c.recipients, c.Kept = nil, nil, 0 })
	st := opened(t, c)
	ago := func(age time.Duration) string {
		return time.Now().UTC().Add(-age).Format(timeForm) + "-cp1.db"
	}
	const day = 24 * time.Hour
	for minute := range 55_000 {
		key := st.directory() + ago(70*day+time.Duration(minute)*time.Minute)
		d.keys = append(d.keys, key, key+manifestEnd)
	}
	get := func(what, name, want string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "restored.db")
		if m, err := st.get(t.Context(), name, out, nil); err != nil || m.Snapshot != want {
			t.Errorf("%s: got %s, %v", what, m.Snapshot, st.explain(err))
		}
	}
	oldest, older, newest := ago(200*day), ago(69*day), ago(time.Hour)
	d.add(t, st, writeSnapshot(t, oldest, snapshotSize-32))
	get("by its name", oldest, oldest)
	if d.listings != 0 {
		t.Errorf("a snapshot is looked for by its name in %d pages", d.listings)
	}
	d.add(t, st, writeSnapshot(t, older, snapshotSize-32))
	get("the newest, of long ago", "", older)
	d.add(t, st, writeSnapshot(t, newest, snapshotSize-32))
	d.listings = 0
	get("the newest", "", newest)
	if d.listings != 1 {
		t.Errorf("the newest is looked for in %d pages", d.listings)
	}
	for _, name := range []string{ago(300 * day), "../" + newest, newest + encryptedEnd, "x"} {
		_, err := st.get(t.Context(), name, filepath.Join(t.TempDir(), "restored.db"), nil)
		wantError(t, name, err, "no verified snapshot "+name)
	}
}

// TestNoVerifiedSnapshot looks at all of a directory before it says that nothing is verified.
func TestNoVerifiedSnapshot(t *testing.T) {
	d := &directory{objects: map[string][]byte{}}
	front := httptest.NewServer(d)
	t.Cleanup(front.Close)
	s := &server{t: t, url: front.URL}
	c, _ := s.config(func(c *config) { c.Recipients, c.recipients = nil, nil })
	st := opened(t, c)
	_, err := st.get(t.Context(), "", filepath.Join(t.TempDir(), "restored.db"), nil)
	wantError(t, "an empty directory", err, "no verified snapshot of the cluster")
	ancient := "19990101T000000Z-cp1.db"
	d.add(t, st, writeSnapshot(t, ancient, snapshotSize-32))
	if m, err := st.get(t.Context(), "", filepath.Join(t.TempDir(), "restored.db"), nil); err != nil ||
		m.Snapshot != ancient {
		t.Errorf("got %s, %v", m.Snapshot, err)
	}
}

// TestEndlessDirectory: a listing without an end is given up at once, and a server that ignores what was asked for
// makes no snapshot pass for a newer one.
func TestEndlessDirectory(t *testing.T) {
	d := &directory{objects: map[string][]byte{}}
	var fail fault
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fail(w, r) {
			d.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	s := &server{t: t, url: front.URL}
	c, _ := s.config(func(c *config) { c.Recipients, c.recipients = nil, nil })
	st := opened(t, c)
	out := filepath.Join(t.TempDir(), "restored.db")
	var many []string
	for n := range 1000 {
		many = append(many, st.directory()+name(n))
	}
	pages := 0
	fail = listing(func(n int) string { pages = n; return listPage(true, many...) })
	_, err := st.get(t.Context(), "", out, nil)
	wantError(t, "pages without an end", err, "more than 100000 objects")
	if pages > mostObjects/len(many)+2 {
		t.Errorf("%d pages were read", pages)
	}
	d.add(t, st, writeSnapshot(t, name(1), snapshotSize-32))
	d.add(t, st, writeSnapshot(t, name(2), snapshotSize-32))
	fail = listing(func(int) string {
		return strings.ReplaceAll(listPage(false, d.keys...), "<Size>1</Size>", fmt.Sprintf("<Size>%d</Size>", snapshotSize))
	})
	if m, err := st.get(t.Context(), "", out, nil); err != nil || m.Snapshot != name(2) {
		t.Errorf("got %s, %v", m.Snapshot, err)
	}
}
