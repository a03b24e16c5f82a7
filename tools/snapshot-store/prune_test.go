package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// add puts an object into the bucket, without the program.
func (s *server) add(key, content string) {
	_, err := s.client.PutObject(s.t.Context(), bucket, key, strings.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{})
	if err != nil {
		s.t.Error(err)
	}
}

// TestPruneThousands removes more objects than a listing has, and nothing that is not the cluster's.
func TestPruneThousands(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	const many = 1100
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		group.Go(func() {
			for n := range numbers {
				s.add(st.directory()+name(n)+encryptedEnd, "cut")
			}
		})
	}
	for n := range many {
		numbers <- n
	}
	close(numbers)
	group.Wait()
	giveUpAtOnce(t)
	others := []string{
		"etcd/prod/" + strings.Repeat("f", 32) + "/" + name(1) + encryptedEnd, st.directory() + "notes.txt",
		st.directory() + "deeper/" + name(1) + encryptedEnd, name(1) + encryptedEnd,
	}
	for _, key := range others {
		s.add(key, "somebody's")
	}
	s.add(st.directory()+name(2)+encryptedEnd+manifestEnd, "{}")

	if r, err := st.prune(t.Context()); err != nil || r.Removed != 0 || r.Kept != 0 {
		t.Fatalf("without a verified snapshot: %+v, %v", r, err)
	}
	for n := range 4 {
		mustPut(t, st, writeSnapshot(t, name(many+n), 1<<16))
	}
	s.add(st.directory()+name(many+10)+encryptedEnd, "an upload that has not ended")
	all, err := st.objects(t.Context())
	if err != nil || len(all) != many+5 {
		t.Fatalf("%d are listed, %v", len(all), err)
	}
	r, err := st.prune(t.Context())
	if err != nil || r.Kept != 3 || r.Removed != many+1+2 {
		t.Errorf("%+v, %v", r, err)
	}
	left := others
	for _, n := range []int{many + 1, many + 2, many + 3} {
		left = append(left, st.directory()+name(n)+encryptedEnd, st.directory()+name(n)+encryptedEnd+manifestEnd)
	}
	left = append(left, st.directory()+name(many+10)+encryptedEnd)
	slices.Sort(left)
	if keys := s.keys(t.Context()); !slices.Equal(keys, left) {
		t.Errorf("the bucket has %q, want %q", keys, left)
	}
}

// TestPruneLocked keeps what object lock protects, without a failure, and goes on.
func TestPruneLocked(t *testing.T) {
	s := newServer(t, true)
	locked, _ := s.config(func(c *config) { c.ObjectLock, c.Kept = &lock{"compliance", 1}, 1 })
	free, _ := s.config(func(c *config) { c.Kept = 1 })
	mustPut(t, opened(t, free), writeSnapshot(t, name(1), 1<<16))
	mustPut(t, opened(t, locked), writeSnapshot(t, name(2), 1<<16))
	mustPut(t, opened(t, locked), writeSnapshot(t, name(3), 1<<16))
	st := opened(t, locked)
	for i, want := range []pruned{{Kept: 1, Removed: 2, Locked: 2}, {Kept: 1, Locked: 2}} {
		if r, err := st.prune(t.Context()); err != nil || r != want {
			t.Errorf("run %d: %+v, %v, want %+v", i+1, r, st.explain(err), want)
		}
	}
	all, err := st.list(t.Context())
	if err != nil || len(all) != 2 || !all[0].Verified || !all[1].Verified {
		t.Errorf("listed %+v, %v", all, err)
	}
	// Versions of a key that was written twice are removed too.
	giveUpAtOnce(t)
	key := st.directory() + name(0) + encryptedEnd
	s.add(key, "first")
	s.add(key, "second")
	if r, err := st.prune(t.Context()); err != nil || r != (pruned{Kept: 1, Removed: 2, Locked: 2}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLockWithoutLocking uploads with object lock into a bucket that has none.
func TestLockWithoutLocking(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.ObjectLock = &lock{"governance", 1} })
	st := opened(t, c)
	_, err := st.put(t.Context(), writeSnapshot(t, name(1), 1<<16))
	wantError(t, "no locking", st.explain(err), "object_lock needs a bucket that was created with it")
}

// TestPruneRefused reports a removal that fails for another reason than a lock.
func TestPruneRefused(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.Kept = 1 })
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, name(1), 1<<16))
	mustPut(t, st, writeSnapshot(t, name(2), 1<<16))
	s.with(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>AccessDenied</Code><Message>no` + "\x1b[31m" + `pe</Message></Error>`))
		return true
	}, func() {
		_, err := st.prune(t.Context())
		err = st.explain(err)
		wantError(t, "refused", err, "was not removed: the credentials in")
		if strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("the error has escapes: %q", err)
		}
	})
}

// TestPruneCut removes the parts of uploads that were cut more than a day ago, not of newer ones.
func TestPruneCut(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.Kept = 2 }) // of which there is one so far
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, name(1), 1<<16))
	core := minio.Core{Client: s.client}
	_, err := core.NewMultipartUpload(t.Context(), bucket, st.directory()+name(2)+encryptedEnd, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cuts := func() (n int) {
		for u := range s.client.ListIncompleteUploads(t.Context(), bucket, "", true) {
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			n++
		}
		return n
	}
	if _, err := st.prune(t.Context()); err != nil || cuts() != 1 {
		t.Fatalf("%d uploads in progress, %v", cuts(), err)
	}
	giveUpAtOnce(t)
	if _, err := st.prune(t.Context()); err != nil || cuts() != 0 {
		t.Errorf("%d uploads in progress, %v", cuts(), err)
	}
}

// giveUpAtOnce: every upload that has not ended was cut.
func giveUpAtOnce(t *testing.T) {
	abandoned = 0
	t.Cleanup(func() { abandoned = 24 * time.Hour })
}

// TestPruneWhileUploading: a prune on another machine leaves an upload without a manifest there, and an upload that has
// lost its object before the manifest was there fails, so that it is tried again.
func TestPruneWhileUploading(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	for n := range 3 {
		mustPut(t, st, writeSnapshot(t, nameOf(6+n, "b"), 1<<16))
	}
	file := writeSnapshot(t, nameOf(5, "a"), 1<<16)
	key := st.directory() + nameOf(5, "a") + encryptedEnd
	beforeManifest := func(do func()) fault {
		var once sync.Once
		return func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, nameOf(5, "a")+encryptedEnd+manifestEnd) {
				once.Do(do)
			}
			return false
		}
	}
	s.with(beforeManifest(func() {
		if r, err := st.prune(t.Context()); err != nil || r.Removed != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}), func() { mustPut(t, st, file) })
	if err := s.client.RemoveObject(t.Context(), bucket, key+manifestEnd, minio.RemoveObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	s.with(beforeManifest(func() {
		if err := s.client.RemoveObject(t.Context(), bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Error(err)
		}
	}), func() {
		_, err := st.put(t.Context(), file)
		wantError(t, "removed", err, "was removed or replaced before its upload ended: it is not verified")
		if got := exitStatus(err); got != 1 {
			t.Errorf("the exit status is %d", got)
		}
	})
	mustPut(t, st, file)
}

// nameOf returns the name of the n-th snapshot, of an etcd cluster.
func nameOf(n int, etcdCluster string) string {
	return strings.TrimSuffix(name(n), ".db") + ".etcd-" + etcdCluster + ".db"
}

// TestPruneFormer: a new etcd cluster does not remove the newest snapshots of the former one, however many it has.
func TestPruneFormer(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config() // three are kept
	st := opened(t, c)
	for n := range 5 {
		mustPut(t, st, writeSnapshot(t, nameOf(n, "a"), 1<<16))
	}
	s.add(st.directory()+nameOf(5, "a")+encryptedEnd, "an upload that has not ended")
	for n := range 3 {
		mustPut(t, st, writeSnapshot(t, nameOf(6+n, "b"), 1<<16))
	}
	wanted := func(run string, want pruned, names ...string) {
		t.Helper()
		if r, err := st.prune(t.Context()); err != nil || r != want {
			t.Errorf("%s: %+v, %v, want %+v", run, r, st.explain(err), want)
		}
		all, err := st.list(t.Context())
		var left []string
		for _, l := range all {
			left = append(left, l.Snapshot)
		}
		slices.Sort(left)
		if err != nil || !slices.Equal(left, names) {
			t.Errorf("%s: %q are left, %v, want %q", run, left, err, names)
		}
	}
	// Another machine may still upload what has no manifest.
	wanted("first", pruned{Kept: 3, Removed: 4, Former: 3}, nameOf(2, "a"), nameOf(3, "a"), nameOf(4, "a"),
		nameOf(5, "a"), nameOf(6, "b"), nameOf(7, "b"), nameOf(8, "b"))
	giveUpAtOnce(t)
	wanted("a day later", pruned{Kept: 3, Removed: 1, Former: 3}, nameOf(2, "a"), nameOf(3, "a"), nameOf(4, "a"),
		nameOf(6, "b"), nameOf(7, "b"), nameOf(8, "b"))
	mustPut(t, st, writeSnapshot(t, nameOf(9, "b"), 1<<16))
	wanted("second", pruned{Kept: 3, Removed: 2, Former: 3}, nameOf(2, "a"), nameOf(3, "a"), nameOf(4, "a"),
		nameOf(7, "b"), nameOf(8, "b"), nameOf(9, "b"))
	st.Kept = 1
	wanted("fewer are kept", pruned{Kept: 1, Removed: 8, Former: 1}, nameOf(4, "a"), nameOf(9, "b"))
}

// TestNewestOfTwoClusters: the newest snapshot is not that of a cluster that seems to have been made without the data.
func TestNewestOfTwoClusters(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, nameOf(0, "a"), 1<<18))
	mustPut(t, st, writeSnapshot(t, nameOf(1, "a"), 1<<18))
	mustPut(t, st, writeSnapshot(t, nameOf(2, "b"), 1<<15))
	mustPut(t, st, writeSnapshot(t, nameOf(3, "b"), 1<<15))
	_, _, err := st.choose(t.Context(), "")
	wantError(t, "much smaller", err, nameOf(3, "b")+" (32800 bytes) is of another etcd cluster than "+nameOf(1, "a"))
	if _, m, err := st.choose(t.Context(), nameOf(3, "b")); err != nil || m.Snapshot != nameOf(3, "b") {
		t.Errorf("by its name: %s, %v", m.Snapshot, err)
	}
	// As after a restore and a defragmentation: who knows the etcd cluster need not compare.
	for etcdCluster, want := range map[string]string{"b": nameOf(3, "b"), "a": nameOf(1, "a")} {
		st.etcdCluster = etcdCluster
		if _, m, err := st.choose(t.Context(), ""); err != nil || m.Snapshot != want {
			t.Errorf("the newest of %s: %s, %v", etcdCluster, m.Snapshot, err)
		}
	}
	st.etcdCluster = "c" // which has no snapshot yet
	_, _, err = st.choose(t.Context(), "")
	wantError(t, "none of the cluster", err, nameOf(3, "b")+" (32800 bytes) is of another etcd cluster than")
	st.etcdCluster = ""
	mustPut(t, st, writeSnapshot(t, nameOf(4, "c"), 1<<17))
	if _, m, err := st.choose(t.Context(), ""); err != nil || m.Snapshot != nameOf(4, "c") {
		t.Errorf("after a restore: %s, %v", m.Snapshot, err)
	}
	mostCompared = 1
	t.Cleanup(func() { mostCompared = 10_000 })
	mustPut(t, st, writeSnapshot(t, nameOf(5, "d"), 1<<13))
	mustPut(t, st, writeSnapshot(t, nameOf(6, "d"), 1<<13))
	if _, m, err := st.choose(t.Context(), ""); err != nil || m.Snapshot != nameOf(6, "d") {
		t.Errorf("with many of the same cluster: %s, %v", m.Snapshot, err)
	}
	mostCompared = 10_000
	mustPut(t, st, writeSnapshot(t, nameOf(7, "e"), 1<<13))
	_, _, err = st.choose(t.Context(), "")
	wantError(t, "two empty clusters", err, nameOf(7, "e")+" (8224 bytes) is of another etcd cluster than "+nameOf(1, "a"))
}

// TestWithoutNewest: old versions of the newest verified snapshots of each etcd cluster stay, with their manifests.
func TestWithoutNewest(t *testing.T) {
	var old []objectVersion
	for n, etcdCluster := range []string{"a", "a", "a", "b", "a"} {
		key := nameOf(n, etcdCluster)
		old = append(old, objectVersion{key, "1"}, objectVersion{key, "2"}, objectVersion{key + manifestEnd, "1"})
	}
	for unverified, c := range map[int]struct {
		have map[string]int
		want []int // those that are removed
	}{
		-1: {map[string]int{"c": 9}, []int{0, 1}},
		4:  {map[string]int{"c": 9}, []int{0, 4}},
		3:  {map[string]int{"a": 1}, []int{0, 1, 2, 3}},
	} {
		left, newest, err := withoutNewest(old, snapshotOf, c.have, 2, func(key string) (bool, error) {
			return unverified < 0 || !strings.HasPrefix(key, strings.TrimSuffix(name(unverified), ".db")), nil
		})
		var got []int
		for i := 0; i < len(left); i += 3 {
			got = append(got, slices.Index(old, left[i])/3)
		}
		if err != nil || !slices.Equal(got, c.want) || len(left) != 3*len(got) || newest != 5-len(got) {
			t.Errorf("%d is not verified: %v are removed (%d versions), %d stay, %v", unverified, got, len(left), newest, err)
		}
	}
	_, _, err := withoutNewest(old, snapshotOf, map[string]int{}, 1, func(string) (bool, error) {
		return false, errors.New("no answer")
	})
	wantError(t, "no answer", err, "no answer")
}

func TestOldestKept(t *testing.T) {
	// The newest first: v is verified, u is not, ! cannot be read, ? cannot be listed.
	for pattern, want := range map[string]string{
		"":      "0 ",
		"vvvv":  "2 1",
		"uvuvv": "2 3",
		"vu":    "1 ",
		"uuu":   "0 ",
		"v!":    "1  error",
		"vv!":   "2 1",
		"v?v":   "1  error",
		"vv?":   "2 1",
	} {
		objects := func(yield func(object, error) bool) {
			for i := range pattern {
				if pattern[i] == '?' && !yield(object{}, errors.New("no listing")) ||
					pattern[i] != '?' && !yield(object{key: fmt.Sprint(i)}, nil) {
					return
				}
			}
		}
		oldest, kept, err := oldestKept(objects, 2, func(o object) (bool, error) {
			var n int
			_, _ = fmt.Sscan(o.key, &n)
			if pattern[n] == '!' {
				return false, errors.New("no answer")
			}
			return pattern[n] == 'v', nil
		})
		got := fmt.Sprintf("%d %s", kept, oldest)
		if err != nil {
			got += " error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

// TestKeepAll never removes anything.
func TestKeepAll(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config(func(c *config) { c.Kept = 0 })
	st := opened(t, c)
	mustPut(t, st, writeSnapshot(t, name(1), 1<<16))
	before := s.keys(t.Context())
	_, err := st.prune(t.Context())
	wantError(t, "kept 0", err, "kept is 0")
	if after := s.keys(t.Context()); !slices.Equal(before, after) {
		t.Errorf("the bucket has %q", after)
	}
	if bytes.Contains([]byte(before[0]), []byte("..")) {
		t.Error(before)
	}
}

// TestPast: a snapshot that is named after a time that is yet to come is not the newest one, and the real ones stay.
func TestPast(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for snapshot, good := range map[string]bool{
		"20260501T115900Z-cp1.db": true, "20260501T120900Z-cp1.db": true, "20260501T121100Z-cp1.db": false,
		"20270501T115900Z-cp1.db": false, "20269999T999999Z-cp1.db": false,
	} {
		if err := past(snapshot, now); (err == nil) != good || err != nil && !errors.Is(err, errUnverified) {
			t.Errorf("%s: %v", snapshot, err)
		}
	}
}

// TestAhead: such a snapshot is neither counted by prune nor chosen as the newest, and can be fetched by its name.
func TestAhead(t *testing.T) {
	s := newServer(t, false)
	c, _ := s.config()
	c.Kept = 1
	st := opened(t, c)
	real, wrong := name(1), "20990101T000000Z-cp1.db"
	mustPut(t, st, writeSnapshot(t, wrong, 1<<16))
	mustPut(t, st, writeSnapshot(t, real, 1<<16))
	if r, err := st.prune(t.Context()); err != nil || r.Removed != 0 || r.Kept != 1 {
		t.Errorf("pruned: %+v, %v", r, err)
	}
	for asked, want := range map[string]string{"": real, wrong: wrong} {
		if _, m, err := st.choose(t.Context(), asked); err != nil || m.Snapshot != want {
			t.Errorf("asked for %q: %s, %v", asked, m.Snapshot, err)
		}
	}
	all, err := st.list(t.Context())
	if err != nil || len(all) != 2 || all[0].Verified || !all[1].Verified {
		t.Errorf("listed: %+v, %v", all, err)
	}
}
