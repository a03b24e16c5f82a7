package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// Local is a snapshot on this computer.
type Local struct {
	Size     int64 // bytes
	Saved    time.Time
	Revision int64 // the newest in it; 0 if Err is set
	Err      error // why it cannot be used, or ErrTooLarge
}

// ErrTooLarge is a snapshot that was not read to its end in the time that there was.
var ErrTooLarge = errors.New("it is too large to be verified in a plan")

// page is the smallest unit of the size of etcd's database.
const page = 512

// ReadLocal reads a snapshot: its hash, and if that fits, its revision. limit is the time that it may take. It returns
// an error for a file that is not there.
func ReadLocal(ctx context.Context, file string, limit time.Duration) (Local, error) {
	opened, err := os.Open(file)
	if err != nil {
		return Local{}, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	info, err := opened.Stat()
	if err != nil {
		return Local{}, err
	}
	if !info.Mode().IsRegular() {
		return Local{}, fmt.Errorf("%s is not a file", file)
	}
	l := Local{Size: info.Size(), Saved: info.ModTime()}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if l.Err = verifyHash(ctx, opened, l.Size); l.Err == nil {
		l.Revision, l.Err = revisionOf(file)
	}
	return l, nil
}

// FileID tells snapshots at the same path apart: by the size, and by the hash that etcd appends, which is not checked.
func FileID(file string) (string, error) {
	opened, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }() // it was only read
	info, err := opened.Stat()
	if err != nil {
		return "", err
	}
	end := make([]byte, sha256.Size)
	if _, err := opened.ReadAt(end, max(0, info.Size()-sha256.Size)); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return fmt.Sprintf("%d-%x", info.Size(), end), nil
}

// verifyHash checks the SHA-256 that etcd appends to a snapshot, as restore_functions.sh does.
func verifyHash(ctx context.Context, file io.Reader, size int64) error {
	switch size % page {
	case sha256.Size:
	case 0:
		return errors.New("it has no integrity hash: it is a copy of a database and not a snapshot of etcd")
	default:
		return fmt.Errorf("it is incomplete: its size is %d bytes", size)
	}
	sum := sha256.New()
	for left := size - sha256.Size; left > 0; {
		if ctx.Err() != nil {
			return ErrTooLarge
		}
		n, err := io.CopyN(sum, file, min(left, 16<<20))
		if err != nil {
			return fmt.Errorf("it cannot be read: %w", err)
		}
		left -= n
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(file, want); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return errors.New("it is corrupt: its SHA-256 does not match its content")
	}
	return nil
}

// revisionOf returns the newest revision in a snapshot: the largest key of the bucket "key" begins with it, in eight
// bytes (etcd's mvcc.RevToBytes). What is no database of etcd can make bbolt read beyond it.
func revisionOf(file string) (revision int64, err error) {
	damaged := errors.New("it is damaged: it is no database of etcd")
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			revision, err = 0, damaged
		}
	}()
	db, err := bbolt.Open(file, 0o400, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", damaged, err)
	}
	defer func() { _ = db.Close() }() // it was only read
	err = db.View(func(tx *bbolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		if keys == nil {
			return damaged
		}
		last, _ := keys.Cursor().Last()
		if last == nil {
			return nil // nothing was ever written
		}
		if len(last) < 8 {
			return damaged
		}
		revision = int64(binary.BigEndian.Uint64(last))
		return nil
	})
	if revision < 0 {
		return 0, damaged
	}
	return revision, err
}
