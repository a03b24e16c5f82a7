package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrRefused means that, according to the machine, no process listens at the address that was
// dialled from it.
var ErrRefused = errors.New("connection refused")

// ErrForwarding means that the machine's sshd opens no TCP connections for its clients.
var ErrForwarding = errors.New("sshd forbids TCP forwarding (AllowTcpForwarding, PermitOpen or DisableForwarding in " +
	"its configuration)")

// classifyDialError recognises the two answers of sshd that describe the listener. No other
// failure does.
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

// forwardingTimeout limits CheckForwarding. The addresses are on the machine itself.
const forwardingTimeout = 10 * time.Second

// CheckForwarding checks that the machine's sshd opens TCP connections from the machine to the
// addresses ("127.0.0.1:2379"), whether or not a process listens there. It sends nothing. It
// returns ErrForwarding if sshd does not.
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
			continue // sshd tried to connect
		}
		return fmt.Errorf("check whether %s forwards TCP connections: %w", h.Address(), err)
	}
	return nil
}
