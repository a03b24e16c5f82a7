package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"
)

// invocation is one command line on a connection.
type invocation struct {
	line           string
	token          string // identifies its processes; "" if it cannot hang
	stdin          io.Reader
	stdout, stderr io.Writer
	started        func() // called right before the command line is sent
	running        func() // called once the machine has started the command; may be nil
}

// lostError means that the connection was lost while the command may have been running.
type lostError struct{ err error }

func (e *lostError) Error() string {
	return e.err.Error() + " while the command ran; it may or may not have finished"
}
func (e *lostError) Unwrap() error { return e.err }

// run opens a session and runs one command line until it ends. It returns *errNotStarted,
// *lostError, *ssh.ExitError, ctx's error or a failure to read stdin.
func (c *connection) run(ctx context.Context, i invocation) error {
	session, release, err := c.open(ctx)
	if err != nil {
		return err
	}
	session.Stdout, session.Stderr = i.stdout, i.stderr
	stdin, err := session.StdinPipe()
	if err != nil {
		release()
		return fmt.Errorf("open standard input: %w", err)
	}
	if i.started != nil {
		i.started()
	}
	finished, inputFailed := make(chan error, 1), make(chan error, 1)
	begun := make(chan struct{}) // closed once the machine has started, or refused, the command
	go func() {
		defer release()
		defer func() { _ = session.Close() }()
		err := session.Start(i.line)
		close(begun)
		if err != nil {
			finished <- err
			return
		}
		if i.running != nil {
			i.running()
		}
		go copyInput(stdin, i.stdin, inputFailed)
		finished <- session.Wait()
	}()

	select {
	case err := <-finished:
		return c.classify(err)
	case err := <-inputFailed:
		c.abort(session, i.token, begun)
		return fmt.Errorf("read standard input: %w", err)
	case <-ctx.Done():
		c.abort(session, i.token, begun)
		return ctx.Err()
	}
}

// copyInput copies input to the remote standard input. A read error must not look like the end
// of input, so it is reported, and standard input stays open until the session is closed. A
// write error means that the command no longer reads: its exit status describes why.
func copyInput(stdin io.WriteCloser, input io.Reader, failed chan<- error) {
	if input == nil {
		_ = stdin.Close()
		return
	}
	reader := &watchedReader{reader: input}
	_, _ = io.Copy(stdin, reader)
	if reader.err != nil {
		failed <- reader.err
		return
	}
	_ = stdin.Close()
}

// watchedReader records a read error other than the end of input.
type watchedReader struct {
	reader io.Reader
	err    error
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (c *connection) classify(err error) error {
	var exit *ssh.ExitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case !c.alive():
		return &lostError{c.lossError()}
	}
	// There is no exit status although the connection was up: sshd's process was killed, or the
	// connection is closing at this moment.
	return &lostError{fmt.Errorf("%w: the session on %s ended unexpectedly (%s)", ErrUnreachable, c.endpoint.name,
		oneLine(err.Error()))}
}

// abort ends a cancelled command: first its processes, by their token (sshd refuses signals to
// root's sessions, and under sudo the user may not signal the group), then its session. It is
// best effort and time-limited, because the caller is waiting and the machine may be down.
func (c *connection) abort(session *ssh.Session, token string, begun <-chan struct{}) {
	defer func() { go func() { _ = session.Close() }() }()
	if token == "" || !c.alive() {
		return
	}
	timeout := time.NewTimer(killTimeout)
	defer timeout.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A command that has not started has no processes yet.
		select {
		case <-begun:
		case <-c.lost:
			return
		}
		// open is not used, because cancelled commands may hold every slot.
		killer, err := c.client.NewSession()
		if err != nil {
			return
		}
		defer func() { _ = killer.Close() }()
		_ = killer.Run(c.rootLine("", killScript(token), nil))
	}()
	select {
	case <-done:
	case <-c.lost:
	case <-timeout.C:
	}
}
