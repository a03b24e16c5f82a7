package main

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// pruned is what a removal of old snapshots has done.
type pruned struct {
	Kept, Removed, Locked int
	// Former is how many more are kept, because they are the newest ones of former clusters of etcd.
	Former int
	// Unread is whether the bucket does not say if it has versions: what was removed may be there as older versions.
	Unread bool
}

// abandoned is the age from which an upload that has not ended was cut.
var abandoned = 24 * time.Hour

// keptOfFormer is how many of the newest verified snapshots of each etcd cluster stay, if no fewer are kept at all. An
// empty cluster that was made by accident would remove the only good ones otherwise.
const keptOfFormer = 3

// prune removes what is older than the newest verified snapshots that are kept, the oldest first, but for the newest
// ones of each former cluster of etcd. If fewer are verified, nothing is removed but uploads that were cut. A locked
// object stays, is no failure, and counts if this run has found it. What one run leaves, the next ones remove.
func (s *store) prune(ctx context.Context) (pruned, error) {
	if s.Kept == 0 {
		return pruned{}, errors.New("kept is 0: the bucket's own rules remove snapshots")
	}
	result, err := s.pruneOld(ctx)
	if err != nil {
		return result, err
	}
	return result, s.removeCut(ctx)
}

// pruneOld is prune without uploads that were cut.
func (s *store) pruneOld(ctx context.Context) (pruned, error) {
	kept := map[string]int{} // etcd cluster → its verified snapshots that are kept
	oldest, total, err := oldestKept(s.newestFirst(ctx), s.Kept, func(o object) (bool, error) {
		_, err := s.verifyRanked(ctx, o)
		if fatal(err) {
			return false, err
		}
		if err == nil {
			kept[etcdOf(s.snapshotAt(o.key))]++
		}
		return err == nil, nil
	})
	result := pruned{Kept: total}
	if err != nil || oldest == "" {
		return result, err
	}
	versions, unread, err := s.versions(ctx)
	if err != nil {
		return result, err
	}
	old, locked, err := s.versionsBefore(ctx, s.snapshotAt(oldest), versions)
	if err != nil {
		return result, err
	}
	result.Locked, result.Unread = locked, unread
	want := min(s.Kept, keptOfFormer)
	old, result.Former, err = withoutNewest(old, s.snapshotAt, kept, want, func(key string) (bool, error) {
		_, err := s.verified(ctx, key)
		if fatal(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil {
		return result, err
	}
	err = removeOld(old, rand.IntN, func(v objectVersion) (bool, error) {
		locked, err := s.remove(ctx, v)
		switch {
		case locked:
			result.Locked++
		case err == nil:
			result.Removed++
		}
		return locked, err
	})
	return result, err
}

// removeOld removes versions, the oldest first, until it has tried mostTried. remove reports whether one is locked.
// After lockedInARow of these it goes on at a random place among those that are left, at mostPlaces in all. Locks of
// the oldest end first, unless a lock was shortened: what can be removed is then behind them, and would wait for their
// locks if each run tried the same ones. random returns a number below its argument.
func removeOld(
	old []objectVersion, random func(int) int, remove func(objectVersion) (locked bool, err error),
) error {
	left, from, tries := slices.Clone(old), 0, mostTried
	for range mostPlaces {
		at := from
		for row := 0; at < len(left) && row < lockedInARow; at++ {
			if tries == 0 {
				return nil
			}
			tries--
			locked, err := remove(left[at])
			if err != nil {
				return err
			}
			if row++; !locked {
				row = 0
			}
		}
		if left = slices.Delete(left, from, at); len(left) == 0 {
			return nil
		}
		from = random(max(1, len(left)-lockedInARow+1))
	}
	return nil
}

// oldestKept returns the key of the oldest snapshot that is kept, "" if there are not enough, and the
// number of verified ones that are kept. Objects are the newest first, until an error.
func oldestKept(
	objects iter.Seq2[object, error], keep int, verified func(object) (bool, error),
) (oldest string, kept int, err error) {
	for o, err := range objects {
		good := false
		if err == nil {
			good, err = verified(o)
		}
		if err != nil {
			return "", kept, err
		}
		if !good {
			continue
		}
		if kept++; kept == keep {
			return o.key, kept, nil
		}
	}
	return "", kept, nil
}

// withoutNewest returns old versions, the oldest first, without those of the newest verified snapshots of each etcd
// cluster, so that it has as many as wanted with those that it has already, and the number of these snapshots.
func withoutNewest(
	old []objectVersion, snapshotAt func(key string) string, have map[string]int, want int,
	verified func(key string) (bool, error),
) (left []objectVersion, newest int, err error) {
	keep, seen := map[string]bool{}, map[string]bool{}
	for _, v := range slices.Backward(old) {
		key := strings.TrimSuffix(v.key, manifestEnd)
		cluster := etcdOf(snapshotAt(key))
		if seen[key] || have[cluster] >= want {
			continue
		}
		seen[key] = true
		good, err := verified(key)
		if err != nil {
			return nil, 0, err
		}
		if good {
			have[cluster]++
			keep[key] = true
		}
	}
	for _, v := range old {
		if !keep[strings.TrimSuffix(v.key, manifestEnd)] {
			left = append(left, v)
		}
	}
	return left, len(keep), nil
}

// snapshotAt returns the name of the snapshot to which a key belongs, as its content or its manifest; "" if it belongs
// to none in the directory of the cluster.
func (s *store) snapshotAt(key string) string {
	last, ok := strings.CutPrefix(key, s.directory())
	if !ok {
		return ""
	}
	return snapshotOf(strings.TrimSuffix(last, manifestEnd))
}

// objectVersion is one version of an object. In a bucket without versions, its ID is "".
type objectVersion struct{ key, id string }

// versions reports whether the bucket has versions, and whether that cannot be read. Object lock is not without them.
func (s *store) versions(ctx context.Context) (have, unread bool, err error) {
	state, err := s.client.GetBucketVersioning(ctx, s.Bucket)
	switch {
	case err == nil:
		return state.Status != "", false, nil
	case minio.ToErrorResponse(err).Code == minio.AccessDenied:
		return s.ObjectLock != nil, s.ObjectLock == nil, nil
	case unsupported(err):
		return false, false, nil
	default:
		return false, false, failed(err, "the bucket's versioning cannot be read")
	}
}

// versionsBefore returns the versions of what is older than a snapshot, the oldest first, and the number of those that
// are not returned, because object lock still protects them. It looks at as many objects as mostObjects says. What is
// not verified and was uploaded less than a day ago is left out: another machine may still upload it, and writes the
// manifest last.
func (s *store) versionsBefore(
	ctx context.Context, limit string, versions bool,
) (old []objectVersion, locked int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := minio.ListObjectsOptions{Prefix: s.directory(), WithVersions: versions}
	seen, now := 0, s.server.now()
	finished := map[string]bool{} // of the keys that were uploaded lately
	for o := range s.client.Client.ListObjects(ctx, s.Bucket, options) {
		if o.Err != nil {
			return nil, 0, failed(o.Err, "the bucket cannot be listed")
		}
		name := s.snapshotAt(o.Key)
		if name >= limit { // keys come in order: what is left is newer too
			break
		}
		if seen++; seen > mostObjects {
			if len(old)+locked == 0 {
				return nil, 0, tooMany(s.directory())
			}
			break
		}
		switch {
		case name == "":
		case s.ObjectLock.holds(name, now):
			locked++
		case now.Sub(o.LastModified) < abandoned:
			key := strings.TrimSuffix(o.Key, manifestEnd)
			if _, known := finished[key]; !known {
				_, err := s.verified(ctx, key)
				if fatal(err) {
					return nil, 0, err
				}
				finished[key] = err == nil
			}
			if finished[key] {
				old = append(old, objectVersion{o.Key, o.VersionID})
			}
		default:
			old = append(old, objectVersion{o.Key, o.VersionID})
		}
	}
	return old, locked, nil
}

// holds reports whether the lock of a snapshot with this name has not ended. It began with the upload, which was after
// the time in the name. What was uploaded before the lock was configured counts too, and stays for as long. A name with
// a time that is yet to come is newer than all that are kept, so it is not asked about.
func (l *lock) holds(snapshot string, now time.Time) bool {
	saved, err := timeOf(snapshot)
	return l != nil && err == nil && saved.AddDate(0, 0, l.Days).After(now)
}

// unsupported reports whether a server or its credentials do not know versions.
func unsupported(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NotImplemented || code == minio.MethodNotAllowed || code == minio.AccessDenied
}

// remove removes one version, unless it is locked.
func (s *store) remove(ctx context.Context, v objectVersion) (locked bool, err error) {
	err = s.client.RemoveObject(ctx, s.Bucket, v.key, minio.RemoveObjectOptions{VersionID: v.id})
	switch {
	case err == nil || minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return false, nil
	case s.locked(ctx, v.key, v.id):
		return true, nil
	default:
		return false, failed(err, "%s was not removed", strings.TrimPrefix(v.key, s.directory()))
	}
}

// locked reports whether a version is protected by object lock. Its headers say it; not every server
// answers GetObjectRetention in S3's form.
func (s *store) locked(ctx context.Context, key, version string) bool {
	have, err := s.client.StatObject(ctx, s.Bucket, key, minio.StatObjectOptions{VersionID: version})
	if err != nil {
		return false
	}
	until, err := time.Parse(time.RFC3339, have.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	return err == nil && until.After(time.Now()) || have.Metadata.Get("X-Amz-Object-Lock-Legal-Hold") == "ON"
}

// removeCut removes the parts of uploads that were cut, which are invisible and cost space.
func (s *store) removeCut(ctx context.Context) error {
	for u := range s.client.ListIncompleteUploads(ctx, s.Bucket, s.directory(), true) {
		last, ok := strings.CutPrefix(u.Key, s.directory())
		switch {
		case u.Err != nil && unsupported(u.Err):
			return nil
		case u.Err != nil:
			return failed(u.Err, "uploads that were cut cannot be listed")
		case !ok || snapshotOf(last) == "" || time.Since(u.Initiated) < abandoned:
			continue
		}
		if err := s.client.AbortMultipartUpload(ctx, s.Bucket, u.Key, u.UploadID); err != nil {
			return failed(err, "the parts of an upload of %s were not removed", last)
		}
	}
	return nil
}
