package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
)

// listing answers requests for a listing with pages that page returns; "" lets the request pass.
func listing(page func(request int) string) fault {
	var requests atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !r.URL.Query().Has("list-type") {
			return false
		}
		text := page(int(requests.Add(1)))
		if text == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, text)
		return true
	}
}

// listPage returns a page with the keys, and whether another one follows.
func listPage(more bool, keys ...string) string {
	text := strings.Builder{}
	fmt.Fprintf(&text, `<?xml version="1.0"?><ListBucketResult><Name>%s</Name><IsTruncated>%v</IsTruncated>`, bucket, more)
	if more {
		text.WriteString("<NextContinuationToken>next</NextContinuationToken>")
	}
	for _, key := range keys {
		fmt.Fprintf(&text, `<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"e"</ETag>`+
			`<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>`, key)
	}
	return text.String() + "</ListBucketResult>"
}

// TestHostileListing fetches from a server whose listing has names that are paths, commands and escapes, or thousands
// of snapshots that nobody uploaded, or that never ends.
func TestHostileListing(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	file := writeSnapshot(t, name(1), 1<<20)
	good := mustPut(t, st, file)
	key, size, etag := st.directory()+good.key(), good.Stored.Size, good.Stored.ETag
	real := fmt.Sprintf(`<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"%s"</ETag>`+
		`<Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>`, key, etag, size)
	with := func(keys ...string) string {
		return strings.Replace(listPage(false, keys...), "</ListBucketResult>", real, 1)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out", "restored.db")
	if err := os.Mkdir(filepath.Dir(out), 0o700); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 900 {
		many = append(many, st.directory()+time.Date(2027, 1, 1, i, 0, 0, 0, time.UTC).Format("20060102T150405Z")+"-cp1.db")
	}
	in := st.directory()
	for what, keys := range map[string][]string{
		"names": {
			"../x", "/etc/shadow", in + "../x", in + "../../" + name(9), in + "$(touch executed)", in + "`touch executed`",
			in + name(9) + ";touch executed", in + name(9) + "&#10;x", in + "20990101T000000Z-../../x.db", in + "-out",
			in + "20990101T000000Z-a b.db", in, "", in + name(9) + ".age.age",
			"other/" + name(9), in + "20990101T000000Z-" + strings.Repeat("a", 1000) + ".db",
		},
		"many": many,
	} {
		s.with(listing(func(int) string { return with(keys...) }), func() {
			m, err := st.get(t.Context(), "", out, []age.Identity{identity})
			if err != nil || m != good || !same(t, file, out) {
				t.Errorf("%s: got %+v, %v", what, m, st.explain(err))
			}
		})
		if err := os.Remove(out); err != nil {
			t.Error(err)
		}
	}
	s.with(listing(func(int) string { return listPage(true, many...) }), func() {
		_, err := st.get(t.Context(), "", out, []age.Identity{identity})
		wantError(t, "pages without an end", err, "more than 100000 objects")
	})
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("list-type") {
			return false
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, `<?xml version="1.0"?><ListBucketResult>`)
		line := bytes.Repeat([]byte("<Contents><Key>"+in+name(3)+"</Key></Contents>"), 1000)
		for {
			if _, err := w.Write(line); err != nil {
				return true
			}
		}
	}, func() {
		_, err := st.get(t.Context(), "", out, []age.Identity{identity})
		wantError(t, "a page without an end", err, "too long")
	})
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(left) > 0 {
		t.Errorf("%q was written", left)
	}
}

// forge writes an object and a manifest that fits it, as somebody can who may write to the bucket. change may make the
// manifest lie.
func (s *server) forge(st *store, n int, content []byte, change func(*manifest)) {
	s.t.Helper()
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	m := manifest{
		Format: manifestFormat, Snapshot: name(n), Cluster: cluster, ClusterName: "prod", Encrypted: true,
		Size: int64(len(content)) - 200, SHA256: digest(content),
		Stored: stored{Size: int64(len(content)), SHA256: digest(content)},
	}
	info, err := s.client.PutObject(s.t.Context(), bucket, st.directory()+m.key(), bytes.NewReader(content),
		int64(len(content)), minio.PutObjectOptions{DisableMultipart: true})
	if err != nil {
		s.t.Fatal(err)
	}
	m.Stored.ETag = info.ETag
	change(&m)
	text, err := json.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.PutObject(s.t.Context(), bucket, st.directory()+m.key()+manifestEnd, bytes.NewReader(text),
		int64(len(text)), minio.PutObjectOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// encrypted returns the ciphertext of zeros.
func encrypted(t *testing.T, to age.Recipient, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestHostileObjects fetches what somebody else wrote into the bucket: sizes that lie, a header and a body that do not
// end. Nothing is left, and little memory is used.
func TestHostileObjects(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	zeros := encrypted(t, identity.Recipient(), 4<<20)
	header := append([]byte("age-encryption.org/v1\n-> X25519 "), bytes.Repeat([]byte("A"), 64<<20)...)
	for i, c := range []struct {
		what    string
		content []byte
		change  func(*manifest)
		want    string
	}{
		{"no snapshot", zeros, func(m *manifest) { m.Size = 4 << 20 }, "it is no snapshot with a SHA-256"},
		{"larger", zeros, func(m *manifest) { m.Size = 4<<20 - 4096 }, "it is larger"},
		{"much larger", zeros, func(m *manifest) { m.Size = 512 }, "no verified snapshot"},
		{"no size", zeros, func(m *manifest) { m.Size = -1 }, "no verified snapshot"},
		{"more than the disk has", zeros, func(m *manifest) { m.Size = 1 << 60 }, "no verified snapshot"},
		{"plain and larger", zeros, func(m *manifest) { m.Size, m.Encrypted = 512, false }, "no verified snapshot"},
		{"a header without an end", header, func(m *manifest) { m.Size = 64 << 20 }, "cannot be decrypted"},
	} {
		s.forge(st, i, c.content, c.change)
		out := filepath.Join(t.TempDir(), "restored.db")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := st.get(t.Context(), name(i), out, []age.Identity{identity})
		runtime.ReadMemStats(&after)
		wantError(t, c.what, err, c.want)
		if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
			t.Errorf("%s: %d MiB were used", c.what, used>>20)
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%s: %q was written", c.what, left)
		}
	}
}

// TestHostileBody answers a request for a snapshot with a body that does not end, that is always too short, that begins
// again instead of going on, or that is another object by now.
func TestHostileBody(t *testing.T) {
	s := newServer(t, false)
	c, identity := s.config()
	st := opened(t, c)
	file := writeSnapshot(t, name(1), 1<<20)
	m := mustPut(t, st, file)
	content, err := os.ReadFile(filepath.Join(s.root, bucket, st.directory()+m.key()))
	if err != nil {
		t.Fatal(err)
	}
	object := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, encryptedEnd)
	}
	answer := func(body func(w http.ResponseWriter, r *http.Request)) fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !object(r) {
				return false
			}
			w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
			w.Header().Set("ETag", `"`+m.Stored.ETag+`"`)
			body(w, r)
			return true
		}
	}
	replaced := false
	for _, c := range []struct {
		what string
		fail fault
		want string
	}{
		{"endless", answer(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(content); err != nil {
					return
				}
			}
		}), ""}, // the object, and more that is not read
		{"endless, of other content", answer(func(w http.ResponseWriter, _ *http.Request) {
			other := flipped(content, len(content)-20)
			for {
				if _, err := w.Write(other); err != nil {
					return
				}
			}
		}), "decrypt"},
		{"always too short", answer(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				_, _ = w.Write(content[:len(content)/2])
			}
		}), "unexpected EOF"},
		{"begins again", answer(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content[:len(content)/2])
		}), "decrypt"},
		{"replaced", func(_ http.ResponseWriter, r *http.Request) bool {
			if object(r) && !replaced {
				replaced = true
				s.forge(st, 1, encrypted(t, identity.Recipient(), 1<<20), func(m *manifest) { m.Size = 1 << 20 })
			}
			return false
		}, "condition"},
	} {
		out := filepath.Join(t.TempDir(), "restored.db")
		s.with(c.fail, func() {
			_, err := st.get(t.Context(), "", out, []age.Identity{identity})
			if err = st.explain(err); c.want != "" {
				wantError(t, c.what, err, c.want)
			} else if err != nil || !same(t, file, out) {
				t.Errorf("%s: %v", c.what, err)
			}
		})
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 && c.want != "" {
			t.Errorf("%s: %q was written", c.what, left)
		}
	}
}

// TestRoom: a snapshot that does not fit on the disk is not fetched.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if err := room(dir, 1<<20); err != nil {
		t.Error(err)
	}
	wantError(t, "an exbibyte", room(dir, 1<<60), "not enough space in "+dir)
	wantError(t, "no directory", room(filepath.Join(dir, "absent"), 1), "ask for the free space")
}
