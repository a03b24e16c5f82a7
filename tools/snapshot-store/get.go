package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
)

// readIdentities reads an identity file of age; "-" is standard input, "" none.
func readIdentities(file string, in io.Reader) ([]age.Identity, error) {
	switch file {
	case "":
		return nil, nil
	case "-":
	default:
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the identity: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	identities, err := age.ParseIdentities(in)
	if err != nil { // whose text may have a part of the identity
		return nil, errors.New("the identity is not an identity file of age, as age-keygen writes it")
	}
	return identities, nil
}

// get fetches a snapshot, the newest verified one if the name is "". The file appears under its name
// only if everything fits: what the store has, the encryption, and the SHA-256 that etcd appended. Its
// modification time is when the snapshot was saved, because a restore says how old the file is.
func (s *store) get(ctx context.Context, name, to string, identities []age.Identity) (manifest, error) {
	o, m, err := s.choose(ctx, name)
	if err != nil {
		return manifest{}, err
	}
	if m.Encrypted && len(identities) == 0 {
		return manifest{}, fmt.Errorf("%s is encrypted: name a file with an identity of its recipients (-identity)",
			m.Snapshot)
	}
	if err := room(filepath.Dir(to), m.Size); err != nil {
		return manifest{}, err
	}
	part, err := os.OpenFile(to+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return manifest{}, fmt.Errorf("write the snapshot: %w", err)
	}
	err = errors.Join(s.fetch(ctx, o, m, identities, part), part.Chmod(0o600), part.Sync(), part.Close())
	if err == nil {
		saved := m.savedAt()
		err = errors.Join(os.Chtimes(part.Name(), saved, saved), os.Rename(part.Name(), to))
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return manifest{}, err
	}
	return m, flush(filepath.Dir(to))
}

// fetch writes a snapshot to out and verifies it.
func (s *store) fetch(ctx context.Context, o object, m manifest, identities []age.Identity, out io.Writer) error {
	body := &resumed{open: func(offset int64) (io.ReadCloser, error) { return s.from(ctx, o, offset) }, size: o.size}
	defer body.close()
	err := verifyInto(out, body, m, identities)
	if body.gaveUp != nil { // which age takes for an altered object
		return failed(body.gaveUp, "%s was not fetched", m.Snapshot)
	}
	return err
}

// verifyInto writes a snapshot to out, and verifies what the body has.
func verifyInto(out io.Writer, body io.Reader, m manifest, identities []age.Identity) error {
	sum := sha256.New()
	received := io.TeeReader(body, sum)
	content := received
	if m.Encrypted {
		var err error
		header := &limited{received, longestHeader}
		if content, err = age.Decrypt(header, identities...); err != nil {
			return decryption(m, err)
		}
		header.left = math.MaxInt64
	}
	plain := newEtcdDigest()
	if _, err := io.Copy(io.MultiWriter(out, plain), io.LimitReader(content, m.Size+1)); err != nil {
		return failed(err, "%s was not fetched", m.Snapshot)
	}
	if plain.size > m.Size {
		return fmt.Errorf("%s is not the snapshot that was uploaded: it is larger", m.Snapshot)
	}
	if _, err := io.Copy(io.Discard, received); err != nil {
		return failed(err, "%s was not fetched", m.Snapshot)
	}
	digest, err := plain.sum()
	switch {
	case hex.EncodeToString(sum.Sum(nil)) != m.Stored.SHA256:
		return fmt.Errorf("%s was altered in the store: its SHA-256 differs from that of the upload", m.Snapshot)
	case err != nil:
		return fmt.Errorf("snapshot %s: %w", m.Snapshot, err)
	case digest != m.SHA256 || plain.size != m.Size:
		return fmt.Errorf("%s is not the snapshot that was uploaded: its SHA-256 or size differs", m.Snapshot)
	}
	return nil
}

func decryption(m manifest, err error) error {
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return fmt.Errorf("%s is encrypted for other recipients: none of the identities opens it", m.Snapshot)
	}
	return failed(err, "%s cannot be decrypted", m.Snapshot)
}

// from reads an object from an offset, and only that object, not a later one with its key.
func (s *store) from(ctx context.Context, o object, offset int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if err := options.SetMatchETag(o.etag); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	if offset > 0 {
		if err := options.SetRange(offset, o.size-1); err != nil {
			return nil, fmt.Errorf("read the object: %w", err)
		}
	}
	body, _, _, err := s.client.GetObject(ctx, s.Bucket, o.key, options)
	return body, err
}

// resumed reads an object through connections that may be cut.
type resumed struct {
	open     func(offset int64) (io.ReadCloser, error)
	size     int64
	offset   int64
	body     io.ReadCloser
	failures int // since the last byte
	gaveUp   error
}

// pause is how long a cut connection waits, times the number of failures.
var pause = time.Second

// Read returns the next bytes, and goes on with a new connection where the last one ended.
func (r *resumed) Read(p []byte) (int, error) {
	for {
		n, err := r.read(p)
		r.offset += int64(n)
		switch {
		case n > 0:
			r.failures = 0
			return n, nil
		case r.offset >= r.size:
			return 0, io.EOF
		}
		r.close()
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if r.failures++; r.failures >= attempts || errors.As(err, &minio.ErrorResponse{}) ||
			errors.Is(err, context.Canceled) {
			r.gaveUp = err
			return 0, err
		}
		time.Sleep(time.Duration(r.failures) * pause)
	}
}

func (r *resumed) read(p []byte) (int, error) {
	if r.offset >= r.size {
		return 0, io.EOF
	}
	if r.body == nil {
		var err error
		if r.body, err = r.open(r.offset); err != nil {
			r.body = nil
			return 0, err
		}
	}
	return r.body.Read(p[:min(int64(len(p)), r.size-r.offset)])
}

func (r *resumed) close() {
	if r.body != nil {
		_ = r.body.Close()
		r.body = nil
	}
}

// flush writes the names in a directory to the disk.
func flush(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush %s: %w", dir, err)
	}
	return errors.Join(opened.Sync(), opened.Close())
}
