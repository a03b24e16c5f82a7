package host

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"time"
)

const (
	maxOutput = 4 << 20  // of standard output; more is an error, never truncated silently
	maxErrors = 16 << 20 // of standard error; more is an error
	maxTail   = 4 << 10  // of standard error, kept for messages
)

var (
	errOutputTooLong = errors.New("standard output is longer than 4 MiB")
	errErrorsTooLong = errors.New("standard error is longer than 16 MiB")
)

// output collects standard output, records when it began and calls overflow if it gets too
// long.
type output struct {
	overflow func()

	mu    sync.Mutex
	text  bytes.Buffer
	began time.Time
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = time.Now()
	}
	if o.text.Len()+len(p) > maxOutput {
		o.overflow()
		return 0, errOutputTooLong
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) firstByte() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began
}

// tail keeps the last bytes written to it, and calls overflow, if set, when there are too many.
// The zero value is ready to use.
type tail struct {
	overflow func()

	mu      sync.Mutex
	written int
	kept    []byte
	cut     bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written += len(p); t.written > maxErrors {
		if t.overflow != nil {
			t.overflow()
		}
		return 0, errErrorsTooLong
	}
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns whole lines: if the beginning was cut off, the remainder of the first line is
// dropped too.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.kept)
	if t.cut {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			return rest
		}
	}
	return text
}
