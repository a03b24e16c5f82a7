package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
)

// size of snapshots of several parts.
const severalParts = 2*partSize + 5<<20

// TestRoundTrip uploads, lists and fetches an encrypted snapshot of several parts.
func TestRoundTrip(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	file := writeSnapshot(t, name(1), severalParts)
	m := mustPut(t, st, file)
	key := "etcd/prod/" + cluster + "/" + name(1) + ".age"
	if keys := s.keys(t.Context()); !slices.Equal(keys, []string{key, key + ".json"}) {
		t.Errorf("the bucket has %q", keys)
	}
	content, err := os.ReadFile(filepath.Join(s.root, bucket, key))
	if err != nil || bytes.Contains(content, []byte("plain text")) || int64(len(content)) != m.Stored.Size {
		t.Errorf("the server has %d bytes, not encrypted or not complete: %v", len(content), err)
	}
	if again := mustPut(t, st, file); again != m {
		t.Errorf("uploaded again: %+v, before %+v", again, m)
	}
	if all, err := st.list(t.Context()); err != nil || len(all) != 1 || !all[0].Verified || all[0].Snapshot != name(1) {
		t.Errorf("listed %+v, %v", all, err)
	}
	out := filepath.Join(t.TempDir(), "restored.db")
	if got, err := st.get(t.Context(), "", out, []age.Identity{identity}); err != nil || got != m {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !same(t, file, out) {
		t.Error("what was fetched is not what was uploaded")
	}
	saved := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC) // in its name
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 || !info.ModTime().Equal(saved) {
		t.Errorf("mode %v, saved %v, %v", info.Mode(), info.ModTime(), err)
	}
	other, _ := age.GenerateX25519Identity()
	_, err = st.get(t.Context(), name(1), out+"2", []age.Identity{other})
	wantError(t, "another identity", err, "other recipients")
	_, err = st.get(t.Context(), "", out+"2", nil)
	wantError(t, "no identity", err, "-identity")
	if _, err := os.Stat(out + "2.part"); err == nil {
		t.Error("a part was left")
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(one, other)
}

// TestPlain stores snapshots without recipients, which is allowed with TLS only.
func TestPlain(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.Recipients, c.recipients = nil, nil })
	st := opened(t, c)
	file := writeSnapshot(t, name(1), 1<<20)
	mustPut(t, st, file)
	out := filepath.Join(t.TempDir(), "restored.db")
	if _, err := st.get(t.Context(), name(1), out, nil); err != nil || !same(t, file, out) {
		t.Errorf("got %v", err)
	}
}

// TestCutUpload cuts connections in the middle of a part: for a while, and always.
func TestCutUpload(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	first := writeSnapshot(t, name(1), 1<<20)
	mustPut(t, st, first)
	var cuts atomic.Int32
	cutting := func(times int32) fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !isPart(r) || r.URL.Query().Get("partNumber") != "2" || cuts.Load() >= times {
				return false
			}
			cuts.Add(1)
			_, _ = io.CopyN(io.Discard, r.Body, 3<<20)
			cut(w)
			return true
		}
	}
	s.with(cutting(3), func() { mustPut(t, st, writeSnapshot(t, name(2), severalParts)) })
	if cuts.Load() != 3 {
		t.Errorf("%d connections were cut", cuts.Load())
	}
	s.with(cutting(1000), func() {
		_, err := st.put(t.Context(), writeSnapshot(t, name(3), severalParts))
		wantError(t, "always cut", st.explain(err), name(3)+" was not uploaded")
	})
	if n := cuts.Load(); n != 3+attempts {
		t.Errorf("%d attempts, want %d", n-3, attempts)
	}
	out := filepath.Join(t.TempDir(), "restored.db")
	if m, err := st.get(t.Context(), "", out, []age.Identity{identity}); err != nil || m.Snapshot != name(2) {
		t.Errorf("the newest is %s, %v", m.Snapshot, err)
	}
	keys := s.keys(t.Context())
	if slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, name(3)) }) {
		t.Errorf("of the cut upload there is something: %q", keys)
	}
}

// TestCutBeforeManifest loses the connection between the snapshot and its manifest: the snapshot does
// not count, and the next run uploads it again.
func TestCutBeforeManifest(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, name(1), 1<<20))
	file := writeSnapshot(t, name(2), 1<<20)
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, manifestEnd) {
			cut(w)
			return true
		}
		return false
	}, func() {
		_, err := st.put(t.Context(), file)
		wantError(t, "no manifest", err, "the manifest of "+name(2)+" was not uploaded")
	})
	all, err := st.list(t.Context())
	if err != nil || len(all) != 2 || all[0].Verified || !all[1].Verified {
		t.Errorf("listed %+v, %v", all, err)
	}
	out := filepath.Join(t.TempDir(), "restored.db")
	if m, err := st.get(t.Context(), "", out, []age.Identity{identity}); err != nil || m.Snapshot != name(1) {
		t.Errorf("the newest verified is %s, %v", m.Snapshot, err)
	}
	mustPut(t, st, file)
	if m, err := st.get(t.Context(), "", out, []age.Identity{identity}); err != nil || m.Snapshot != name(2) {
		t.Errorf("the newest verified is %s, %v", m.Snapshot, err)
	}
}

// TestBusy answers 503 for a while, and always.
func TestBusy(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	var answers atomic.Int32
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		if !isPart(r) || answers.Add(1) > 4 {
			return false
		}
		busyAnswer(w)
		return true
	}, func() { mustPut(t, st, writeSnapshot(t, name(1), severalParts)) })
	answers.Store(0)
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		answers.Add(1)
		busyAnswer(w)
		return true
	}, func() {
		_, err := st.put(t.Context(), writeSnapshot(t, name(2), 1<<20))
		wantError(t, "always busy", st.explain(err), "the server is overloaded or has an error (status 503")
	})
	if n := answers.Load(); n != attempts {
		t.Errorf("%d attempts, want %d", n, attempts)
	}
}

// TestLocate asks for the region until the server answers, and gives up.
func TestLocate(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.Region = "" })
	var answers atomic.Int32
	busy := func(times int32) fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !r.URL.Query().Has("location") || answers.Add(1) > times {
				return false
			}
			busyAnswer(w)
			return true
		}
	}
	s.with(busy(3), func() {
		st := opened(t, c)
		if err := st.locate(t.Context()); err != nil {
			t.Error(err)
		}
		mustPut(t, st, writeSnapshot(t, name(1), 1<<16))
	})
	answers.Store(0)
	s.with(busy(1000), func() {
		st := opened(t, c)
		wantError(t, "always busy", st.explain(st.locate(t.Context())),
			"the bucket's region is unknown: the server is overloaded")
	})
	if n := answers.Load(); n != attempts {
		t.Errorf("%d attempts", n)
	}
}

// TestPauses checks that the pauses of a real run grow, and are bounded.
func TestPauses(t *testing.T) {
	longest := time.Duration(0)
	for i := range attempts - 1 {
		longest += min(maxPause, firstPause<<i)
	}
	if longest > 90*time.Second || longest < 10*time.Second {
		t.Errorf("the pauses of a request take up to %s", longest)
	}
}

// TestCutDownload cuts connections while a snapshot is fetched, and while another one takes its key.
func TestCutDownload(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	file := writeSnapshot(t, name(1), severalParts)
	mustPut(t, st, file)
	var ranges atomic.Int32
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, encryptedEnd) || ranges.Add(1) > 3 {
			return false
		}
		cutAfter(w, r, s, 7<<20)
		return true
	}, func() {
		out := filepath.Join(t.TempDir(), "restored.db")
		if _, err := st.get(t.Context(), "", out, []age.Identity{identity}); err != nil || !same(t, file, out) {
			t.Errorf("got %v", err)
		}
	})
	if ranges.Load() != 4 {
		t.Errorf("%d requests", ranges.Load())
	}
}

// cutAfter forwards a request and cuts the answer after some bytes.
func cutAfter(w http.ResponseWriter, r *http.Request, s *server, bytes int64) {
	forwarded := r.Clone(r.Context())
	forwarded.RequestURI, forwarded.URL.Scheme, forwarded.URL.Host = "", "http", s.client.EndpointURL().Host
	resp, err := http.DefaultTransport.RoundTrip(forwarded)
	if err != nil {
		cut(w)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.CopyN(w, resp.Body, bytes)
	cut(w)
}

// TestAltered alters what the server has: each snapshot is refused, and nothing is written.
func TestAltered(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, name(1), 1<<20))
	object := filepath.Join(s.root, bucket, st.directory()+name(1)+encryptedEnd)
	good, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		content []byte
		want    string
	}{
		"truncated": {good[:len(good)-1], "no verified snapshot"},
		"longer":    {append(bytes.Clone(good), 0), "no verified snapshot"},
		"a bit":     {flipped(good, len(good)/2), "failed to decrypt"},
		"the end":   {flipped(good, len(good)-1), "failed to decrypt"},
	} {
		if err := os.WriteFile(object, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "restored.db")
		_, err := st.get(t.Context(), "", out, []age.Identity{identity})
		wantError(t, what, err, c.want)
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%s: %q was written", what, left)
		}
	}
}

func flipped(content []byte, at int) []byte {
	content = bytes.Clone(content)
	content[at] ^= 1
	return content
}

// TestCorruptSnapshot refuses to upload what is no verified snapshot.
func TestCorruptSnapshot(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	file := writeSnapshot(t, name(1), 1<<20)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		content []byte
		want    string
	}{
		"truncated": {good[:len(good)-1], "truncated"}, "without digest": {good[:len(good)-32], "copied instead of saved"},
		"a bit": {flipped(good, 1000), "its SHA-256 does not match"}, "nothing": {nil, "truncated"},
	} {
		if err := os.WriteFile(file, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := st.put(t.Context(), file)
		wantError(t, what, err, c.want)
		if got := exitStatus(err); got != badSnapshot {
			t.Errorf("%s: the exit status is %d", what, got)
		}
	}
	for what, unread := range map[string]string{
		"missing": filepath.Join(t.TempDir(), name(1)), "a directory": filepath.Join(t.TempDir(), name(2)),
	} {
		if what == "a directory" {
			if err := os.Mkdir(unread, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		_, err := st.put(t.Context(), unread)
		wantError(t, what, err, "read the snapshot")
		if got := exitStatus(err); got != 1 {
			t.Errorf("%s: the exit status is %d, so the file is called damaged", what, got)
		}
	}
	_, err = st.put(t.Context(), filepath.Join(t.TempDir(), "x.db"))
	wantError(t, "name", err, "not named like")
	if got := exitStatus(err); got != badSnapshot {
		t.Errorf("another name: the exit status is %d", got)
	}
	for status, err := range map[int]error{0: nil, 1: errors.New("the server refuses"), 2: errUsage} {
		if got := exitStatus(err); got != status {
			t.Errorf("%v: the exit status is %d, want %d", err, got, status)
		}
	}
	if keys := s.keys(t.Context()); len(keys) > 0 {
		t.Errorf("the bucket has %q", keys)
	}
}
