package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// Forms of names. A name begins with the time, so sorting by name sorts by age. Whatever else is in
// the bucket is never read and never removed.
var (
	nameForm   = regexp.MustCompile(`^\d{8}T\d{6}Z-[a-z0-9][a-z0-9.-]{0,99}\.db$`)
	etcdForm   = regexp.MustCompile(`\.etcd-([0-9a-f]{1,16})\.db$`) // its end, which the timer's script writes
	etcdIDForm = regexp.MustCompile(`^[0-9a-f]{1,16}$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Ends of keys: KEY = DIRECTORY/NAME, with encryptedEnd if it is encrypted. The manifest is beside it.
const (
	encryptedEnd = ".age"
	manifestEnd  = ".json"
)

// manifest describes a snapshot that was uploaded completely, and what the server had of it then. It
// is written last, so a snapshot without one is an upload that was cut.
type manifest struct {
	Format      int    `json:"format"`
	Snapshot    string `json:"snapshot"`
	Cluster     string `json:"cluster"`
	ClusterName string `json:"cluster_name"`
	Size        int64  `json:"size"`   // of the snapshot
	SHA256      string `json:"sha256"` // of the snapshot
	Encrypted   bool   `json:"encrypted"`
	Stored      stored `json:"stored"`
}

// stored is what the server has: the snapshot, or its ciphertext.
type stored struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	ETag   string `json:"etag"`
}

// manifestFormat is the only one so far.
const manifestFormat = 1

// largestManifest is in bytes.
const largestManifest = 64 << 10

// parseManifest decodes the manifest of a key. Everything that is not as put writes it is an error.
func parseManifest(text []byte, key, cluster string) (manifest, error) {
	var m manifest
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return manifest{}, errors.New("the manifest is not valid")
	}
	switch {
	case m.Format != manifestFormat:
		return manifest{}, fmt.Errorf("the manifest has the format %d: use a newer kube-snapshot-store", m.Format)
	case !nameForm.MatchString(m.Snapshot) || m.Cluster != cluster || m.key() != key[strings.LastIndex(key, "/")+1:]:
		return manifest{}, errors.New("the manifest is that of another snapshot")
	case m.Size <= 0 || m.Stored.Size <= 0 || !digestForm.MatchString(m.SHA256) ||
		!digestForm.MatchString(m.Stored.SHA256):
		return manifest{}, errors.New("the manifest lacks sizes or digests")
	case !m.sizesFit():
		return manifest{}, errors.New("the manifest has sizes that do not fit each other")
	}
	return m, nil
}

// sizesFit reports whether an upload of the snapshot can have the size: age adds 16 bytes to each 64 KiB, and a header.
func (m manifest) sizesFit() bool {
	if !m.Encrypted {
		return m.Stored.Size == m.Size
	}
	more := m.Stored.Size - m.Size
	return more > 0 && more <= m.Size/4096+longestHeader
}

// savedAt returns when the snapshot was saved, by its name; zero if its name has no such time, which
// leaves the times of a file as they are (os.Chtimes).
func (m manifest) savedAt() time.Time {
	saved, err := timeOf(m.Snapshot)
	if err != nil {
		return time.Time{}
	}
	return saved
}

// timeForm is the time with which a name begins.
const timeForm = "20060102T150405Z"

// timeOf returns the time in the name of a snapshot.
func timeOf(snapshot string) (time.Time, error) {
	at, _, _ := strings.Cut(snapshot, "-")
	return time.Parse(timeForm, at)
}

// key returns the last part of the key.
func (m manifest) key() string {
	if m.Encrypted {
		return m.Snapshot + encryptedEnd
	}
	return m.Snapshot
}

// snapshotOf returns the snapshot's name in the last part of a key; "" if it is no snapshot's.
func snapshotOf(key string) string {
	name := strings.TrimSuffix(key, encryptedEnd)
	if !nameForm.MatchString(name) {
		return ""
	}
	return name
}

// etcdOf returns etcd's ID of the cluster that a snapshot is of, by its name; "" if that does not say it. The directory
// has the ID of the bundle, which may have had several clusters of etcd: each bootstrap and each restore makes another.
func etcdOf(snapshot string) string {
	if parts := etcdForm.FindStringSubmatch(snapshot); parts != nil {
		return parts[1]
	}
	return ""
}

// etcdDigest checks the SHA-256 that etcd appends to a snapshot, while the snapshot passes by. The
// database is made of pages, so the digest makes the size recognizable.
type etcdDigest struct {
	all, database hash.Hash
	tail          []byte // the last bytes, which may be the digest
	size          int64
}

func newEtcdDigest() *etcdDigest { return &etcdDigest{all: sha256.New(), database: sha256.New()} }

// Write takes the next part.
func (d *etcdDigest) Write(p []byte) (int, error) {
	_, _ = d.all.Write(p)
	d.size += int64(len(p))
	d.tail = append(d.tail, p...)
	if more := len(d.tail) - sha256.Size; more > 0 {
		_, _ = d.database.Write(d.tail[:more])
		d.tail = append(d.tail[:0], d.tail[more:]...)
	}
	return len(p), nil
}

// page is the smallest unit of the database's size.
const page = 512

// sum returns the digest of everything, if the snapshot is complete.
func (d *etcdDigest) sum() (string, error) {
	switch {
	case d.size <= sha256.Size || d.size%page != sha256.Size:
		return "", errors.New("it is no snapshot with a SHA-256: it was truncated, or copied instead of saved")
	case !bytes.Equal(d.database.Sum(nil), d.tail):
		return "", errors.New("it is corrupt: its SHA-256 does not match its content")
	}
	return hex.EncodeToString(d.all.Sum(nil)), nil
}

// digestOf reads a snapshot and returns its size and digest. Only what the content says makes it a badFile: one that
// cannot be read now may be a good snapshot.
func digestOf(file string) (size int64, digest string, err error) {
	opened, err := os.Open(file)
	if err != nil {
		return 0, "", fmt.Errorf("read the snapshot: %w", err)
	}
	defer func() { _ = opened.Close() }()
	d := newEtcdDigest()
	if _, err := io.Copy(d, opened); err != nil {
		return 0, "", fmt.Errorf("read the snapshot: %w", err)
	}
	digest, err = d.sum()
	if err != nil {
		return 0, "", badFile{fmt.Errorf("snapshot %s: %w", file, err)}
	}
	return d.size, digest, nil
}
