package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// errUnverified is a snapshot in the store that must not be used.
var errUnverified = errors.New("it is not verified")

// listed is a snapshot in the store.
type listed struct {
	Snapshot  string `json:"snapshot"`
	Size      int64  `json:"size"` // of the object
	Encrypted bool   `json:"encrypted"`
	Verified  bool   `json:"verified"`
	State     string `json:"state"`
}

// object is an object in the store.
type object struct {
	key, etag string
	size      int64
}

// tooMany is the error of a listing with more objects than are looked at, in a directory.
type tooMany string

func (t tooMany) Error() string {
	return fmt.Sprintf("the bucket cannot be listed: %s has more than %d objects", string(t), mostObjects)
}

// objects returns the snapshots in the store, the newest first. Other objects are left out.
func (s *store) objects(ctx context.Context) ([]object, error) { return s.between(ctx, "", "") }

// between returns the snapshots whose keys are after one key and before another one, the newest first. An empty key is
// no limit.
func (s *store) between(ctx context.Context, after, before string) ([]object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []object
	seen := 0
	options := minio.ListObjectsOptions{Prefix: s.directory(), StartAfter: after}
	for o := range s.client.Client.ListObjects(ctx, s.Bucket, options) {
		if o.Err != nil {
			return nil, failed(o.Err, "the bucket cannot be listed")
		}
		older := before == "" || o.Key < before
		if seen++; seen > mostObjects && older {
			return nil, tooMany(s.directory())
		}
		if seen > mostObjects {
			break // keys come in order: what is left is newer too
		}
		last, ok := strings.CutPrefix(o.Key, s.directory())
		if ok && snapshotOf(last) != "" && o.Key > after && older {
			all = append(all, object{o.Key, o.ETag, o.Size})
		}
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(b.key, a.key) })
	return all, nil
}

// list describes the snapshots in the store.
func (s *store) list(ctx context.Context) ([]listed, error) {
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	all := []listed{}
	for _, o := range objects {
		last := strings.TrimPrefix(o.key, s.directory())
		l := listed{Snapshot: snapshotOf(last), Size: o.size, Encrypted: strings.HasSuffix(last, encryptedEnd)}
		_, err := s.verifyRanked(ctx, o)
		if fatal(err) {
			return nil, err
		}
		l.Verified, l.State = err == nil, "verified"
		if err != nil {
			l.State = err.Error()
		}
		all = append(all, l)
	}
	return all, nil
}

// mostAhead is how far the clock of a machine may be ahead of the others.
const mostAhead = 10 * time.Minute

// past returns an error if a snapshot is named after a time that is yet to come: it would pass for the newest one until
// then, and the real ones would be removed as older.
func past(snapshot string, now time.Time) error {
	at, err := timeOf(snapshot)
	if err != nil {
		return fmt.Errorf("%w: its name has no time", errUnverified)
	}
	if at.Sub(now) > mostAhead {
		return fmt.Errorf("%w: it is named after a time that is yet to come, so the clock of its machine was wrong",
			errUnverified)
	}
	return nil
}

// verified returns the manifest of a key, if the server has what it describes. It asks for the manifest
// first: the answer to a failed HEAD has no cause.
func (s *store) verified(ctx context.Context, key string) (manifest, error) {
	m, err := s.manifest(ctx, key)
	if err != nil {
		return manifest{}, err
	}
	have, err := s.client.StatObject(ctx, s.Bucket, key, minio.StatObjectOptions{})
	switch {
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return manifest{}, fmt.Errorf("%w: it is not in the store", errUnverified)
	case err != nil:
		return manifest{}, failed(err, "the store cannot be read")
	}
	return m, m.fits(object{key, have.ETag, have.Size})
}

// verify returns the manifest of an object, if the object is what it describes.
func (s *store) verify(ctx context.Context, o object) (manifest, error) {
	m, err := s.manifest(ctx, o.key)
	if err != nil {
		return manifest{}, err
	}
	return m, m.fits(o)
}

// verifyRanked is verify for an object that is to be the newest, or newer than others.
func (s *store) verifyRanked(ctx context.Context, o object) (manifest, error) {
	m, err := s.verify(ctx, o)
	if err != nil {
		return m, err
	}
	return m, past(snapshotOf(strings.TrimPrefix(o.key, s.directory())), s.server.now())
}

// fits checks that an object is the one that was uploaded.
func (m manifest) fits(o object) error {
	if m.Stored.Size != o.size || m.Stored.ETag != o.etag {
		return fmt.Errorf("%w: the object is not the one that was uploaded", errUnverified)
	}
	return nil
}

// manifest fetches the manifest of a key.
func (s *store) manifest(ctx context.Context, key string) (manifest, error) {
	what := "the manifest of " + strings.TrimPrefix(key, s.directory()) + " cannot be read"
	body, _, _, err := s.client.GetObject(ctx, s.Bucket, key+manifestEnd, minio.GetObjectOptions{})
	switch {
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return manifest{}, fmt.Errorf("%w: it has no manifest, so its upload has not ended", errUnverified)
	case err != nil:
		return manifest{}, failed(err, "%s", what)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, largestManifest+1))
	switch {
	case err != nil:
		return manifest{}, failed(err, "%s", what)
	case len(text) > largestManifest:
		return manifest{}, fmt.Errorf("%w: the manifest is too large", errUnverified)
	}
	m, err := parseManifest(text, key, s.Cluster)
	if err != nil {
		return manifest{}, fmt.Errorf("%w: %w", errUnverified, err)
	}
	return m, nil
}

// choose returns the snapshot with a name, or the newest verified one if the name is "".
func (s *store) choose(ctx context.Context, name string) (object, manifest, error) {
	if name != "" {
		return s.named(ctx, name)
	}
	if s.etcdCluster != "" {
		if o, m, err := s.newestOf(ctx, s.etcdCluster); err != nil || m.Snapshot != "" {
			return o, m, err
		}
		s.note("the store has no verified snapshot of the etcd cluster %s", s.etcdCluster)
	}
	return s.newest(ctx)
}

// named returns the snapshot with a name, encrypted or not. Nothing is listed.
func (s *store) named(ctx context.Context, name string) (object, manifest, error) {
	if !nameForm.MatchString(name) {
		return object{}, manifest{}, fmt.Errorf("the store has no verified snapshot %s: this is not the name of one", name)
	}
	for _, last := range []string{name + encryptedEnd, name} {
		key := s.directory() + last
		m, err := s.verified(ctx, key)
		if err == nil || fatal(err) {
			return object{key, m.Stored.ETag, m.Stored.Size}, m, err
		}
		s.note("%s is skipped: %v", last, err)
	}
	return object{}, manifest{}, fmt.Errorf("the store has no verified snapshot %s", name)
}

// newestOf returns the newest verified snapshot of an etcd cluster, which is compared with no other one; one without a
// name if there is none, as after a restore until the first one is uploaded.
func (s *store) newestOf(ctx context.Context, etcdCluster string) (object, manifest, error) {
	for o, err := range s.newestFirst(ctx) {
		last := snapshotOf(strings.TrimPrefix(o.key, s.directory()))
		switch {
		case errors.As(err, new(tooMany)):
			return object{}, manifest{}, nil
		case err != nil:
			return object{}, manifest{}, err
		case etcdOf(last) != etcdCluster:
			continue
		}
		m, err := s.verifyRanked(ctx, o)
		switch {
		case err == nil:
			return o, m, nil
		case fatal(err):
			return object{}, manifest{}, err
		}
		s.note("%s is skipped: %v", last, err)
	}
	return object{}, manifest{}, nil
}

// longestSpan is the longest time in days that newestFirst looks at before it looks at everything that is older.
const longestSpan = 1 << 12

// newest returns the newest verified snapshot. It refuses one that is much smaller than the largest one among the
// newest of each former etcd cluster: an empty cluster that was made by accident saves snapshots too, and so does the
// next one.
func (s *store) newest(ctx context.Context) (object, manifest, error) {
	var chosen object
	var of, largest manifest // of chosen, and of the former clusters
	compared, done := 0, map[string]bool{}
	for o, err := range s.newestFirst(ctx) {
		last := snapshotOf(strings.TrimPrefix(o.key, s.directory()))
		switch {
		case err != nil && of.Snapshot != "" && errors.As(err, new(tooMany)):
			return chosen, of, s.compareClusters(of, largest)
		case err != nil:
			return object{}, manifest{}, err
		case of.Snapshot != "":
			if compared++; compared > mostCompared {
				return chosen, of, s.compareClusters(of, largest)
			}
			if etcdOf(last) == "" || done[etcdOf(last)] {
				continue
			}
		}
		m, err := s.verifyRanked(ctx, o)
		switch {
		case fatal(err):
			return object{}, manifest{}, err
		case err != nil:
			s.note("%s is skipped: %v", last, err)
		case etcdOf(m.Snapshot) == "": // none was chosen yet
			return o, m, nil
		case of.Snapshot == "":
			chosen, of = o, m
		case m.Size > largest.Size:
			largest = m
		}
		if err == nil {
			done[etcdOf(m.Snapshot)] = true
		}
	}
	if of.Snapshot != "" {
		return chosen, of, s.compareClusters(of, largest)
	}
	return object{}, manifest{}, fmt.Errorf("the store has no verified snapshot of the cluster %s in %s", s.Cluster,
		s.directory())
}

// muchLarger is how many times larger a snapshot of the former etcd cluster is if the newer one may have lost its data.
const muchLarger = 4

// compareClusters compares the newest snapshot with one of a former etcd cluster, if there is one.
func (s *store) compareClusters(newest, former manifest) error {
	if former.Snapshot == "" {
		return nil
	}
	text := fmt.Sprintf("the newest snapshot %s (%d bytes) is of another etcd cluster than %s (%d bytes) before it",
		newest.Snapshot, newest.Size, former.Snapshot, former.Size)
	if former.Size/muchLarger <= newest.Size {
		s.note("%s", text)
		return nil
	}
	return errors.New(text + ", which is much larger, so it may be of a cluster that was made without the data: " +
		"use the name of the one that you want instead of the newest. Those that nobody needs can be removed from the bucket")
}

// newestFirst returns the snapshots in the store, the newest first, until an error. Names begin with the time, so it
// looks at the last day first, and then at times before that, each twice as long. A directory may have more objects
// than are looked at at once.
func (s *store) newestFirst(ctx context.Context) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		at, before := s.server.now().UTC(), ""
		for days := 1; ; {
			after := ""
			if days <= longestSpan {
				after = s.directory() + at.AddDate(0, 0, -days).Format(timeForm)
			}
			objects, err := s.between(ctx, after, before)
			if errors.As(err, new(tooMany)) && days > 1 && days <= longestSpan {
				days /= 2
				continue
			}
			if err != nil {
				yield(object{}, err)
				return
			}
			for _, o := range objects {
				if !yield(o, nil) {
					return
				}
			}
			if after == "" {
				return
			}
			at, before = at.AddDate(0, 0, -days), after
			days *= 2
		}
	}
}
