package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrRefused means that, according to the machine, no process listens at the address that was
// dialled from it.
var ErrRefused = errors.New("connection refused")

// ErrUnanswered means that the machine tried to connect, and that nothing at the address has answered, or
// that something on the way has forbidden it.
var ErrUnanswered = errors.New("no connection")

// ErrForwarding means that the machine's sshd opens no TCP connections for its clients.
var ErrForwarding = errors.New("sshd forbids TCP forwarding (AllowTcpForwarding, PermitOpen or DisableForwarding in " +
	"its configuration)")

// unanswered are the errors of connect(2), as sshd passes them on, of a connection that was not answered, or
// forbidden by ICMP: a firewall that drops or rejects gives one of them, and a closed port gives none.
var unanswered = []string{"timed out", "no route to host", "permission denied", "operation not permitted"}

// classifyDialError recognises the answers of sshd that describe the other end. No other failure
// does.
func classifyDialError(err error) error {
	var open *ssh.OpenChannelError
	switch {
	case !errors.As(err, &open):
		return err
	case open.Reason == ssh.Prohibited:
		return fmt.Errorf("%s: %w", oneLine(open.Message), ErrForwarding)
	case open.Reason == ssh.ConnectionFailed && strings.Contains(strings.ToLower(open.Message), "refused"):
		return fmt.Errorf("%s: %w", oneLine(open.Message), ErrRefused)
	case open.Reason == ssh.ConnectionFailed && slices.ContainsFunc(unanswered, func(text string) bool {
		return strings.Contains(strings.ToLower(open.Message), text)
	}):
		return fmt.Errorf("%s: %w", oneLine(open.Message), ErrUnanswered)
	}
	return err
}

// forwardingTimeout limits CheckForwarding. The addresses are on the machine itself.
const forwardingTimeout = 10 * time.Second

// Dialer opens TCP connections from a machine.
type Dialer interface {
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
}

// CheckForwarding returns ErrForwarding if the machine's sshd forbids a connection to one of the addresses
// ("127.0.0.1:2379"). It sends nothing, and it does not matter whether a process listens. Every other failure says
// nothing about sshd, and is ignored.
func CheckForwarding(ctx context.Context, d Dialer, addresses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, forwardingTimeout)
	defer cancel()
	for _, address := range addresses {
		conn, err := d.Dial(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if errors.Is(err, ErrForwarding) {
			return err
		}
	}
	return nil
}
