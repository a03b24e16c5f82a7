package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// digestCache caches the SHA-256 of local files, because a program of 100 MB is uploaded to
// many machines and read by many refreshes. The zero value is ready to use.
type digestCache struct {
	mu    sync.Mutex
	files map[string]*cachedDigest // by path
}

// cachedDigest is computed under its own lock, so that each file is read only once and does not
// block others.
type cachedDigest struct {
	mu       sync.Mutex
	size     int64
	modified time.Time
	digest   string
}

// digest returns the hex SHA-256 and the size of the local file at path. It returns
// ErrNoArtifact for a missing file and ErrDigest for a file that does not match its
// NAME.sha256.
func (c *digestCache) digest(path string) (digest string, size int64, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, fmt.Errorf("%w: there is no file %s", ErrNoArtifact, path)
	case err != nil:
		return "", 0, fmt.Errorf("find the artifact: %w", err)
	case !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("%w: %s is not a file", ErrNoArtifact, path)
	}
	entry := c.entry(path)
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if entry.digest == "" || entry.size != info.Size() || !entry.modified.Equal(info.ModTime()) {
		computed, err := hashFile(path)
		if err != nil {
			return "", 0, err
		}
		entry.digest, entry.size, entry.modified = computed, info.Size(), info.ModTime()
	}
	if err := checkPublished(path, entry.digest); err != nil {
		return "", 0, err
	}
	return entry.digest, entry.size, nil
}

func (c *digestCache) entry(path string) *cachedDigest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = make(map[string]*cachedDigest)
	}
	if c.files[path] == nil {
		c.files[path] = &cachedDigest{}
	}
	return c.files[path]
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the user's own artifact directory
	if err != nil {
		return "", fmt.Errorf("read the artifact: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read the artifact: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// checkPublished compares digest with the checksum file next to path, if there is one.
func checkPublished(path, digest string) error {
	text, err := os.ReadFile(path + ".sha256") //nolint:gosec // the user's own artifact directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the artifact's checksum: %w", err)
	}
	want := publishedDigest(string(text), filepath.Base(path))
	if !strings.EqualFold(want, digest) {
		return fmt.Errorf("%w: %s has SHA-256 %s, its .sha256 file says %q", ErrDigest, path, digest, want)
	}
	return nil
}

// publishedDigest returns the digest of name from a checksum file, which contains either one
// hex SHA-256, or "digest filename" lines.
func publishedDigest(text, name string) string {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 1 || len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == name {
			return fields[0]
		}
	}
	return ""
}
