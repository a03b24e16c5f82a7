package host

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// leaseHeartbeat is the interval at which a holder sends heartbeats.
	leaseHeartbeat = 5 * time.Second
	// heartbeatTimeout is how long a machine keeps a lease without a heartbeat. A process that
	// exits loses its leases immediately, because its connections end.
	heartbeatTimeout = 30 * time.Second
	// leaseReleaseTimeout limits the wait for a machine to confirm a release.
	leaseReleaseTimeout = 3 * time.Second

	leaseLostCode = 75 // EX_TEMPFAIL
	killedCode    = 128 + 9
)

//go:embed lease.sh
var leaseScript string

var leaseEpoch = regexp.MustCompile(`^[0-9]{1,18}$`)

var leaseName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)

// ErrLeaseLost means that a lease ended while it was needed, so that another process may be
// making changes at the same time.
var ErrLeaseLost = errors.New("lease lost")

// HeldError means that another process holds the lease.
type HeldError struct {
	Address string // of the machine
	Name    string // of the lease
	Holder  string // how the other process describes itself
	Token   string // of the lease that it holds; "" if the machine does not say
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lease %s on %s is held by %s", e.Name, e.Address, e.Holder)
}

// Lease is an exclusive lock on one machine, held by one process. It ends with Release, with
// the process, or when the connection to the machine is lost.
type Lease struct {
	address, name, token string
	epoch                string // number of the lease's holder, counted on the machine
	connection           *connection

	lost     chan struct{} // closed when the lease is no longer held
	release  func()
	released atomic.Bool // by this process; false if it was lost
}

// NewLease returns a lease that is held until release is called or lost is closed. It is for
// tests whose machines are not reached over SSH.
func NewLease(address, name, token string, lost chan struct{}, release func()) *Lease {
	return &Lease{address: address, name: name, token: token, lost: lost, release: sync.OnceFunc(release)}
}

// Held reports whether the lease is still held.
func (l *Lease) Held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

// TakeLease takes the named lease on the machine, or fails with *HeldError if another process
// holds it. holder describes this process, for messages. previous is the same lease as this
// process held it before it lost the connection, or nil. With previous, TakeLease fails with
// ErrLeaseLost if another process has held the lease since.
func (h *Host) TakeLease(ctx context.Context, name, holder string, previous *Lease) (*Lease, error) {
	if !leaseName.MatchString(name) {
		return nil, fmt.Errorf("lease %q: want lower case letters, digits, dots and dashes", name)
	}
	summary := "take the lease " + name
	_, ended := h.pool.settings.around(h.Address(), summary)
	defer ended()
	m, err := h.pool.machine(h.Address())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", summary, err)
	}
	for attempt := 1; ; attempt++ {
		lease, err := h.takeLease(ctx, m, name, holder, previous)
		var early *errNotStarted
		if errors.As(err, &early) && attempt < maxAttempts && ctx.Err() == nil {
			continue
		}
		var held *HeldError
		if err != nil && !errors.As(err, &held) {
			err = fmt.Errorf("%s on %s: %w", summary, h.Address(), err)
		}
		return lease, err
	}
}

func (h *Host) takeLease(ctx context.Context, m *machine, name, holder string, previous *Lease) (*Lease, error) {
	conn, err := h.pool.connect(ctx, m)
	if err != nil {
		return nil, err
	}
	conn.killStaleCommands(ctx)
	h.endLostLease(ctx, conn, name)
	token, expected := newToken(), ""
	if previous != nil {
		expected = previous.epoch
	}
	script, err := withVars(Script(withoutComments(killFunctions+leaseScript)), map[string]string{
		"name": name, "token": token, "holder": strings.ToValidUTF8(holder, "?"), "expected": expected,
		"timeout": strconv.Itoa(int(heartbeatTimeout.Seconds())),
	})
	if err != nil {
		return nil, err
	}
	stdin, heartbeat := io.Pipe()
	answer, stdout := io.Pipe()
	session, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lease := &Lease{address: h.Address(), name: name, token: token, connection: conn, lost: make(chan struct{})}
	var ended error
	go func() {
		defer close(lease.lost)
		defer cancel()
		ended = conn.run(session, invocation{
			line: conn.rootLine(token, string(script), nil), token: token, stdin: stdin, stdout: stdout, stderr: io.Discard,
		})
		_ = stdout.Close()
		_ = stdin.Close()
	}()
	lease.release = sync.OnceFunc(func() {
		go func() {
			_, _ = heartbeat.Write([]byte("r"))
			_ = heartbeat.Close()
		}()
		defer func() { _ = heartbeat.Close() }() // also if nothing reads it
		select {
		case <-lease.lost:
			lease.released.Store(true)
		case <-time.After(leaseReleaseTimeout):
		}
		cancel()
	})
	if err := lease.readAnswer(ctx, answer); err != nil {
		lease.release()
		var held *HeldError
		switch {
		case errors.As(err, &held):
		case ctx.Err() == nil:
			<-lease.lost
			err = errors.Join(err, ended)
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		return nil, err
	}
	h.pool.leases.Store(h.Address()+" "+name, lease)
	go lease.sendHeartbeats(heartbeat)
	return lease, nil
}

// readAnswer waits for the machine's answer: "taken" and the epoch, "held" with the token and the holder, or
// "changed".
func (l *Lease) readAnswer(ctx context.Context, answer *io.PipeReader) error {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		reader := bufio.NewReader(io.LimitReader(answer, 1<<10))
		first, err := reader.ReadString('\n')
		if first == "held\n" {
			token, _ := reader.ReadString('\n')
			holder, _ := reader.ReadString('\n')
			err = &HeldError{
				Address: l.address, Name: l.name, Holder: oneLine(strings.TrimSpace(holder)), Token: strings.TrimSpace(token),
			}
		}
		lines <- line{first, err}
		_, _ = io.Copy(io.Discard, answer)
	}()
	select {
	case <-ctx.Done():
		_ = answer.CloseWithError(ctx.Err())
		return ctx.Err()
	case got := <-lines:
		epoch, taken := strings.CutPrefix(strings.TrimSpace(got.text), "taken ")
		switch {
		case got.err != nil:
			return got.err
		case got.text == "changed\n":
			return fmt.Errorf("%w: another process has held it since", ErrLeaseLost)
		case !taken || !leaseEpoch.MatchString(epoch):
			return fmt.Errorf("unexpected answer %s", problem.Quote(got.text))
		}
		l.epoch = epoch
		return nil
	}
}

// sendHeartbeats sends heartbeats until the lease ends.
func (l *Lease) sendHeartbeats(heartbeat *io.PipeWriter) {
	ticker := time.NewTicker(leaseHeartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-l.lost:
			return
		case <-ticker.C:
			if _, err := heartbeat.Write([]byte(".")); err != nil {
				return
			}
		}
	}
}

// endLostLease ends the remaining process, on the machine, of a lease that this process lost. If it lost the connection
// too, it also ends the commands under the lease: sshd may not have noticed the loss yet.
func (h *Host) endLostLease(ctx context.Context, conn *connection, name string) {
	last, ok := h.pool.leases.Load(h.Address() + " " + name)
	lease, known := last.(*Lease)
	if !ok || !known || lease.Held() || lease.released.Load() {
		return
	}
	script := killScript(lease.token)
	if lease.connection != conn {
		script = killLeaseScript(lease.token)
	}
	_ = conn.run(ctx, invocation{line: conn.rootLine("", script, nil)}) // best effort: it ends by itself
}
