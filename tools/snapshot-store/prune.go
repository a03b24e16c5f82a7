package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// pruned is what a removal of old snapshots has done.
type pruned struct{ Kept, Removed, Locked int }

// abandoned is the age from which an upload that has not ended was cut.
var abandoned = 24 * time.Hour

// prune removes what is older than the newest verified snapshots that are kept. If fewer are
// verified, nothing is removed. A locked object stays, and is no failure.
func (s *store) prune(ctx context.Context) (pruned, error) {
	if s.Kept == 0 {
		return pruned{}, errors.New("kept is 0: the bucket's own rules remove snapshots")
	}
	objects, err := s.objects(ctx)
	if err != nil {
		return pruned{}, err
	}
	oldest, kept, err := oldestKept(objects, s.Kept, func(o object) (bool, error) {
		_, err := s.verifyRanked(ctx, o)
		if fatal(err) {
			return false, err
		}
		return err == nil, nil
	})
	result := pruned{Kept: kept}
	if err != nil || oldest == "" {
		return result, err
	}
	versions, err := s.versions(ctx)
	if err != nil {
		return result, err
	}
	for _, key := range s.before(slices.Sorted(maps.Keys(versions)), oldest) {
		if err := s.removeAll(ctx, key, versions[key], &result); err != nil {
			return result, err
		}
	}
	return result, s.removeCut(ctx)
}

// oldestKept returns the key of the oldest snapshot that is kept, "" if there are not enough, and the
// number of verified ones that are kept. Objects are the newest first.
func oldestKept(objects []object, keep int, verified func(object) (bool, error)) (oldest string, kept int, err error) {
	for _, o := range objects {
		good, err := verified(o)
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

// before returns the keys of snapshots and manifests that are older than the oldest one to keep.
func (s *store) before(keys []string, oldest string) []string {
	limit := snapshotOf(strings.TrimPrefix(oldest, s.directory()))
	var old []string
	for _, key := range keys {
		last, ok := strings.CutPrefix(key, s.directory())
		name := snapshotOf(strings.TrimSuffix(last, manifestEnd))
		if ok && name != "" && name < limit {
			old = append(old, key)
		}
	}
	return old
}

// versions returns the versions of each key. A bucket without versions has one of each, "".
func (s *store) versions(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	state, err := s.client.GetBucketVersioning(ctx, s.Bucket)
	if err != nil && !unsupported(err) {
		return nil, failed(err, "the bucket's versioning cannot be read")
	}
	options := minio.ListObjectsOptions{Prefix: s.directory(), WithVersions: err == nil && state.Status != ""}
	for o := range s.client.Client.ListObjects(ctx, s.Bucket, options) {
		if o.Err != nil {
			return nil, failed(o.Err, "the bucket cannot be listed")
		}
		all[o.Key] = append(all[o.Key], o.VersionID)
	}
	return all, nil
}

// unsupported reports whether a server or its credentials do not know versions.
func unsupported(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NotImplemented || code == minio.MethodNotAllowed || code == minio.AccessDenied
}

// removeAll removes the versions of a key.
func (s *store) removeAll(ctx context.Context, key string, versions []string, result *pruned) error {
	for _, version := range versions {
		err := s.client.RemoveObject(ctx, s.Bucket, key, minio.RemoveObjectOptions{VersionID: version})
		switch {
		case err == nil || minio.ToErrorResponse(err).Code == minio.NoSuchKey:
			result.Removed++
		case s.locked(ctx, key, version):
			result.Locked++
		default:
			return failed(err, "%s was not removed", strings.TrimPrefix(key, s.directory()))
		}
	}
	return nil
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
