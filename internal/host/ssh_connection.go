package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// maxSessions stays below sshd's MaxSessions (10 by default) and leaves two sessions for
	// ending cancelled commands. Tunnels are not sessions.
	maxSessions = 8
	// maxUnanswered is the number of keepalive intervals that may pass without an answer.
	maxUnanswered = 3
)

// connection is one SSH connection. It ends once, either dropped or lost.
type connection struct {
	endpoint    endpoint
	sudo        bool // commands need sudo to run as root
	raw         net.Conn
	client      *ssh.Client
	sessions    chan struct{} // one element per open session
	openTimeout time.Duration // the maximum wait for a session to open

	dropOnce sync.Once
	dropErr  error
	lost     chan struct{} // closed when no answers can arrive any more

	staleMu     sync.Mutex
	staleKilled bool
}

func newConnection(e endpoint, raw net.Conn, client *ssh.Client, s settings) *connection {
	c := &connection{
		endpoint:    e,
		sudo:        e.user != defaultUser,
		raw:         raw,
		client:      client,
		sessions:    make(chan struct{}, maxSessions),
		openTimeout: s.connectTimeout,
		lost:        make(chan struct{}),
	}
	go func() {
		_ = client.Wait()
		_ = c.drop()
	}()
	go c.keepalive(s.keepalive)
	return c
}

func (c *connection) alive() bool {
	select {
	case <-c.lost:
		return false
	default:
		return true
	}
}

// drop ends the connection. It closes the TCP connection directly, because a graceful close
// would wait for a machine that may be down.
func (c *connection) drop() error {
	c.dropOnce.Do(func() {
		close(c.lost)
		c.dropErr = c.raw.Close()
		_ = c.client.Close()
		if errors.Is(c.dropErr, net.ErrClosed) {
			c.dropErr = nil
		}
	})
	return c.dropErr
}

// keepalive probes the machine and drops the connection if a probe is not answered for three
// intervals. One probe at a time is enough: TCP delivers in order, so a later probe could not
// be answered earlier.
func (c *connection) keepalive(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	answered := make(chan struct{}, 1)
	for waiting := 0; ; {
		select {
		case <-c.lost:
			return
		case <-answered:
			waiting = 0
		case <-ticker.C:
			if waiting == 0 {
				go func() {
					// sshd answers "failure", which is an answer (OpenSSH, serverloop.c).
					if _, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil); err == nil {
						answered <- struct{}{}
					}
				}()
			}
			if waiting++; waiting > maxUnanswered {
				_ = c.drop()
				return
			}
		}
	}
}

// errNotStarted is a failure before the machine can have started anything.
type errNotStarted struct{ err error }

func (e *errNotStarted) Error() string { return e.err.Error() }
func (e *errNotStarted) Unwrap() error { return e.err }

// open waits for a free session and opens it. If the server refuses (its MaxSessions may be
// lower than maxSessions), open retries while other sessions end. No answer at all means that
// the connection is dead; open then drops it.
func (c *connection) open(ctx context.Context) (*ssh.Session, func(), error) {
	select {
	case c.sessions <- struct{}{}:
	case <-c.lost:
		return nil, nil, &errNotStarted{c.lossError()}
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	release := sync.OnceFunc(func() { <-c.sessions })
	if ctx.Err() != nil { // a slot may become free at the same time as ctx ends
		release()
		return nil, nil, ctx.Err()
	}
	deadline := time.Now().Add(c.openTimeout)
	for delay := 20 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		session, err := c.openOnce(ctx)
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			return session, release, nil
		case !errors.As(err, &refused) || time.Now().Add(delay).After(deadline):
			release()
			if refused != nil {
				err = fmt.Errorf("%w: %s refused a session: %s", ErrUnreachable, c.endpoint.name, oneLine(refused.Message))
			}
			return nil, nil, err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			release()
			return nil, nil, ctx.Err()
		}
	}
}

func (c *connection) openOnce(ctx context.Context) (*ssh.Session, error) {
	type result struct {
		session *ssh.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		session, err := c.client.NewSession()
		opened <- result{session, err}
	}()
	abandon := func() {
		if r := <-opened; r.err == nil {
			_ = r.session.Close()
		}
	}
	timeout := time.NewTimer(c.openTimeout)
	defer timeout.Stop()
	select {
	case r := <-opened:
		var refused *ssh.OpenChannelError
		if r.err != nil && !errors.As(r.err, &refused) {
			_ = c.drop()
			return nil, &errNotStarted{c.lossError()}
		}
		return r.session, r.err
	case <-timeout.C:
		_ = c.drop()
		go abandon()
		return nil, &errNotStarted{c.lossError()}
	case <-ctx.Done():
		go abandon()
		return nil, ctx.Err()
	}
}

func (c *connection) lossError() error {
	return fmt.Errorf("%w: the connection to %s was lost", ErrUnreachable, c.endpoint.name)
}

// checkSudo checks, once per connection, whether sudo lets the user run commands as root. If sudo does not end in time,
// the machine has accepted the login and hangs. It is then never lost, so the error is ErrNoAnswer too.
func (c *connection) checkSudo(ctx context.Context) error {
	var stderr tail
	err := c.run(ctx, invocation{line: "exec sudo -n true", stderr: &stderr})
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("connect to %s: %w: user %s: %s", c.endpoint.name, ErrNotRoot, c.endpoint.user,
			strings.TrimSpace(stderr.String()))
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("connect to %s as %s: %w: the login was accepted, and sudo gave %w", c.endpoint.name,
			c.endpoint.user, ErrUnreachable, ErrNoAnswer)
	}
	return err
}
