package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrRefused: the machine answers that nothing listens at the address that was
// dialled from it.
var ErrRefused = errors.New("connection refused")

// ErrForwarding: the machine's sshd opens no TCP connection for its clients.
var ErrForwarding = errors.New("sshd forbids TCP forwarding (AllowTcpForwarding, PermitOpen or DisableForwarding in its configuration)")

// classifyDialError finds the two answers of sshd that say something about the
// listener. Any other failure says nothing about it.
func classifyDialError(err error) error {
	var open *ssh.OpenChannelError
	switch {
	case !errors.As(err, &open):
		return err
	case open.Reason == ssh.Prohibited:
		return fmt.Errorf("%s: %w", oneLine(open.Message), ErrForwarding)
	case open.Reason == ssh.ConnectionFailed && strings.Contains(strings.ToLower(open.Message), "refused"):
		return fmt.Errorf("%s: %w", oneLine(open.Message), ErrRefused)
	}
	return err
}

// forwardingTimeout bounds CheckForwarding: what is dialled is on the machine itself.
const forwardingTimeout = 10 * time.Second

// CheckForwarding makes sure that the machine's sshd opens TCP connections from
// the machine to the addresses ("127.0.0.1:2379"), whether anything listens there
// or not. It sends nothing. An error that is ErrForwarding says that it does not.
func (h *Host) CheckForwarding(ctx context.Context, addresses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, forwardingTimeout)
	defer cancel()
	for _, address := range addresses {
		conn, err := h.Dial(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			continue
		}
		var open *ssh.OpenChannelError
		if errors.Is(err, ErrRefused) || errors.As(err, &open) {
			continue // it was tried
		}
		return fmt.Errorf("see whether %s forwards TCP connections: %w", h.Address(), err)
	}
	return nil
}
