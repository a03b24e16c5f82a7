package host

import (
	"errors"
	"fmt"
)

// Sentinels for branching with errors.Is.
var (
	// ErrUnreachable: no SSH session could be had (dial, timeout, lost
	// connection). It says nothing about what is on the machine.
	ErrUnreachable = errors.New("unreachable over SSH")
	// ErrHostKey: the machine's host key is unknown or differs. Never retried.
	ErrHostKey = errors.New("host key not trusted")
	// ErrAuth: the machine refused every credential.
	ErrAuth = errors.New("SSH authentication refused")
	// ErrNotRoot: the SSH user is not root and sudo without a password is refused.
	ErrNotRoot = errors.New("no root rights")
	// ErrDigest: an artifact's content is not what its checksum says.
	ErrDigest = errors.New("artifact checksum differs")
	// ErrNoArtifact: the artifact source does not have it.
	ErrNoArtifact = errors.New("artifact not found")
)

// HostKeyError carries the key that was seen, in authorized_keys format, so
// that the message can say how to pin it.
type HostKeyError struct {
	Address string // the cluster address
	Seen    string // "ssh-ed25519 AAAA…"
	Known   []string
	Reason  string // why a key that is known was refused all the same: revoked, certificate expired, …
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

// ExitError is a remote command that ran and failed.
type ExitError struct {
	Address string
	Code    int
	Stderr  string // last lines
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("command on %s exited with %d: %s", e.Address, e.Code, e.Stderr)
}
