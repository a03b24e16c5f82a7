package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
)

// badFile is the error of a file that cannot be uploaded, whatever the server answers.
type badFile struct{ error }

func (b badFile) Unwrap() error { return b.error }

// partSize is how much of a snapshot is in memory, and repeated if a request fails.
const partSize = 16 << 20

// put uploads a snapshot, compares what the server has with what was sent, and writes the manifest.
// A snapshot that is in the store already is not uploaded again.
func (s *store) put(ctx context.Context, file string) (manifest, error) {
	m := manifest{
		Format: manifestFormat, Snapshot: filepath.Base(file), Cluster: s.Cluster, ClusterName: s.ClusterName,
		Encrypted: len(s.recipients) > 0,
	}
	if !nameForm.MatchString(m.Snapshot) {
		return manifest{}, badFile{fmt.Errorf("%s is not named like a scheduled snapshot (20060102T150405Z-NAME.db)", file)}
	}
	var err error
	if m.Size, m.SHA256, err = digestOf(file); err != nil {
		return manifest{}, err
	}
	key := s.directory() + m.key()
	if there, err := s.verified(ctx, key); err == nil && there.SHA256 == m.SHA256 {
		return there, nil
	} else if fatal(err) {
		return manifest{}, err
	}
	if m.Stored, err = s.upload(ctx, file, key, m.SHA256); err != nil {
		return manifest{}, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return manifest{}, fmt.Errorf("write the manifest: %w", err)
	}
	_, err = s.client.Client.PutObject(ctx, s.Bucket, key+manifestEnd, bytes.NewReader(text), int64(len(text)),
		s.putOptions("application/json"))
	if err != nil {
		return manifest{}, failed(err, "the manifest of %s was not uploaded", m.Snapshot)
	}
	switch _, err := s.verified(ctx, key); { // until now, it was an upload that has not ended
	case fatal(err):
		return manifest{}, err
	case err != nil:
		return manifest{}, fmt.Errorf("%s was removed or replaced before its upload ended: %w", m.Snapshot, err)
	}
	return m, nil
}

// upload sends a snapshot, encrypted if there are recipients, and verifies it.
func (s *store) upload(ctx context.Context, file, key, digest string) (stored, error) {
	opened, err := os.Open(file)
	if err != nil {
		return stored{}, fmt.Errorf("read the snapshot: %w", err)
	}
	defer func() { _ = opened.Close() }()
	plain := newEtcdDigest()
	content := io.TeeReader(opened, plain)
	if len(s.recipients) > 0 {
		if content, err = age.EncryptReader(content, s.recipients...); err != nil {
			return stored{}, fmt.Errorf("encrypt the snapshot: %w", err)
		}
	}
	sent, sum := &counter{r: content}, sha256.New()
	info, err := s.client.Client.PutObject(ctx, s.Bucket, key, io.TeeReader(sent, sum), -1,
		s.putOptions("application/octet-stream"))
	if err != nil {
		return stored{}, failed(err, "%s was not uploaded", filepath.Base(file))
	}
	if read, err := plain.sum(); err != nil || read != digest {
		return stored{}, fmt.Errorf("snapshot %s was changed while it was uploaded", file)
	}
	return s.compare(ctx, key, stored{Size: sent.size, SHA256: hex.EncodeToString(sum.Sum(nil)), ETag: info.ETag})
}

// compare checks that the server has what was sent.
func (s *store) compare(ctx context.Context, key string, sent stored) (stored, error) {
	have, err := s.client.StatObject(ctx, s.Bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return stored{}, failed(err, "the upload was not verified")
	}
	if have.Size != sent.Size || have.ETag != sent.ETag || sent.ETag == "" {
		return stored{}, fmt.Errorf("the upload is not complete: %d bytes were sent, and the server has %d, ETag %s instead "+
			"of %s", sent.Size, have.Size, visible(have.ETag), visible(sent.ETag))
	}
	return sent, nil
}

// putOptions returns how objects are uploaded: each part with a checksum that the server compares.
func (s *store) putOptions(contentType string) minio.PutObjectOptions {
	o := minio.PutObjectOptions{ContentType: contentType, PartSize: partSize, SendContentMd5: true}
	if s.ObjectLock != nil {
		o.Mode = minio.Governance
		if s.ObjectLock.Mode == "compliance" {
			o.Mode = minio.Compliance
		}
		o.RetainUntilDate = time.Now().UTC().Add(time.Duration(s.ObjectLock.Days) * 24 * time.Hour)
	}
	return o
}

// counter counts what is read.
type counter struct {
	r    io.Reader
	size int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.size += int64(n)
	return n, err
}

// fatal reports whether a failed verification is that of the store, not of a snapshot in it.
func fatal(err error) bool { return err != nil && !errors.Is(err, errUnverified) }
