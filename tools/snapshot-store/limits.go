package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
)

// Limits of what is read of a server, whatever it says. The machine that reads runs a control plane.
const (
	// largestAnswer is in bytes. A page of a listing has up to 1000 keys, each of up to 1024 bytes.
	largestAnswer = 16 << 20
	// longestHeader is how much of a snapshot may come before its encrypted content, in bytes.
	longestHeader = 1 << 20
)

const (
	// lockedInARow is how many objects in a row one run of prune finds locked before it goes on at another place.
	lockedInARow = 20
	// mostPlaces is at how many places one run of prune tries. If all objects are locked, it tries the product of both.
	mostPlaces = 5
)

// Limits of what is done at once. Tests lower them.
var (
	// mostObjects is how many objects in the directory of a cluster are looked at at once. A snapshot has two.
	mostObjects = 100_000
	// mostTried is how many objects one run of prune tries to remove, so that it ends within minutes. One that is
	// locked counts too.
	mostTried = 5000
	// mostCompared is how many older snapshots are looked at for those of former etcd clusters.
	mostCompared = 10_000
)

var errTooLong = errors.New("the server's answer is too long")

// limited fails when there is more than is left.
type limited struct {
	io.Reader
	left int64
}

// Read returns the next bytes.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// limitAnswer limits an answer to anything but a request for an object.
func limitAnswer(r *http.Request, resp *http.Response) {
	if r.Method == http.MethodGet && r.URL.RawQuery == "" && resp.StatusCode/100 == 2 {
		return // get reads no more of it than the manifest says
	}
	body := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{&limited{body, largestAnswer}, body}
}

// room fails if there is no space for a file of size bytes in a directory.
func room(dir string, size int64) error {
	var system syscall.Statfs_t
	if err := syscall.Statfs(dir, &system); err != nil {
		return fmt.Errorf("ask for the free space in %s: %w", dir, err)
	}
	if pages := uint64(size)/uint64(system.Bsize) + 1; pages > system.Bavail {
		return fmt.Errorf("not enough space in %s: %d bytes are required, %d are free", dir, size,
			system.Bavail*uint64(system.Bsize))
	}
	return nil
}
