package host

import (
	"errors"
	"fmt"
)

// Sentinel errors, for errors.Is.
var (
	// ErrUnreachable means that no SSH session could be established (dial, timeout, lost
	// connection). It does not tell what is on the machine.
	ErrUnreachable = errors.New("unreachable over SSH")
	// ErrNoAnswer means that a machine has not answered an observation in time, and that nothing says that it cannot be
	// reached: it may accept connections and hang. By itself it is not ErrUnreachable, because such a machine is never
	// lost, and may serve. An error that is both means that there is no session, and that the machine has accepted a
	// connection. See Unanswered and MayBeLost.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrPending means that the machine's settings are not known yet (see Override). It is also
	// ErrUnreachable.
	ErrPending = fmt.Errorf("%w: its SSH settings are not known yet", ErrUnreachable)
	// ErrHostsPending means that the settings of no machine are known yet (Config.HostsPending). It is also ErrPending.
	ErrHostsPending = fmt.Errorf("%w, because ssh.hosts of the provider is not known yet", ErrPending)
	// ErrHostKey means that the machine's host key is unknown or differs. It is never retried.
	ErrHostKey = errors.New("host key not trusted")
	// ErrAuth means that the machine refused every credential.
	ErrAuth = errors.New("SSH authentication refused")
	// ErrNotRoot means that the SSH user is not root and may not use sudo without a password.
	ErrNotRoot = errors.New("no root rights")
	// ErrDigest means that the content of an artifact does not match its checksum.
	ErrDigest = errors.New("artifact checksum differs")
	// ErrNoArtifact means that the artifact source does not have the artifact.
	ErrNoArtifact = errors.New("artifact not found")
)

// errNotConnected means that there was no connection to a machine when the caller's time was over. That is less than
// ErrUnreachable: the time may have been short, or the caller was cancelled.
var errNotConnected = errors.New("no connection yet")

// HostKeyError contains the presented key, in authorized_keys format, so that the message can
// show how to pin it.
type HostKeyError struct {
	Address string // the cluster address
	Seen    string // "ssh-ed25519 AAAA…"
	Known   []string
	Reason  string // why a known key was refused: revoked, certificate expired, …
}

func (e *HostKeyError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("host key of %s refused: %s: it presented %q", e.Address, e.Reason, e.Seen)
	}
	if len(e.Known) == 0 {
		return fmt.Sprintf("host key of %s is not known: it presented %q", e.Address, e.Seen)
	}
	return fmt.Sprintf("host key of %s changed: it presented %q, trusted is %q", e.Address, e.Seen, e.Known)
}

func (e *HostKeyError) Unwrap() error { return ErrHostKey }

// ExitError is a remote command that exited with a non-zero status.
type ExitError struct {
	Address string
	Code    int
	Stderr  string // last lines
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("command on %s exited with %d: %s", e.Address, e.Code, e.Stderr)
}
