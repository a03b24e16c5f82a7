package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// dialMachine connects to the machine with this cluster address, through the bastion if there
// is one, and ensures that its commands run as root.
func (p *Pool) dialMachine(ctx context.Context, address string, attempt *dialing) (*connection, error) {
	if p.settings.pending {
		return nil, fmt.Errorf("connect to %s: %w", address, ErrHostsPending)
	}
	if p.settings.overrides[address].Pending {
		return nil, fmt.Errorf("connect to %s: %w", address, ErrPending)
	}
	e := p.settings.target(address)
	raw, err := p.dialTCP(ctx, e)
	if err != nil {
		return nil, err
	}
	conn, err := p.handshake(ctx, raw, e)
	if err != nil {
		return nil, err
	}
	if !conn.sudo {
		return conn, nil
	}
	attempt.loggedIn.Store(true)
	if err := conn.checkSudo(ctx); err != nil {
		_ = conn.drop()
		return nil, err
	}
	return conn, nil
}

func (p *Pool) dialBastion(ctx context.Context, _ *dialing) (*connection, error) {
	e := *p.settings.bastion
	raw, err := p.dialDirect(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("bastion: %w", err)
	}
	conn, err := p.handshake(ctx, raw, e)
	if err != nil {
		return nil, fmt.Errorf("bastion: %w", err)
	}
	return conn, nil
}

func (p *Pool) dialTCP(ctx context.Context, e endpoint) (net.Conn, error) {
	if p.bastion == nil {
		return p.dialDirect(ctx, e)
	}
	raw, err := p.tunnel(ctx, p.bastion, e.dialAddress())
	if err == nil {
		return raw, nil
	}
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) {
		err = fmt.Errorf("from bastion %s: %s", p.bastion.address, oneLine(refused.Message))
	}
	return nil, dialError(ctx, e, err)
}

func (p *Pool) dialDirect(ctx context.Context, e endpoint) (net.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", e.dialAddress())
	if err != nil {
		return nil, dialError(ctx, e, err)
	}
	return raw, nil
}

// handshake establishes an SSH connection on raw, which it owns from then on. A connection
// through a bastion has no deadlines, so the timeout closes it.
func (p *Pool) handshake(ctx context.Context, raw net.Conn, e endpoint) (*connection, error) {
	methods, hangUp, err := p.settings.authentication(ctx, e)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	defer hangUp()
	v := p.settings.verifier(e)
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	sshConn, channels, requests, err := ssh.NewClientConn(raw, e.dialAddress(), &ssh.ClientConfig{
		User:              e.user,
		Auth:              methods,
		HostKeyCallback:   v.check,
		HostKeyAlgorithms: v.algorithms(),
	})
	if !stop() && err == nil { // closed at the last moment
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, dialError(ctx, e, err)
	}
	return newConnection(e, raw, ssh.NewClient(sshConn, channels, requests), p.settings), nil
}

// dialError classifies a failure to connect.
func dialError(ctx context.Context, e endpoint, err error) error {
	var untrusted *HostKeyError
	var setting *ConfigError
	switch {
	case errors.As(err, &untrusted):
		return untrusted
	case errors.As(err, &setting):
		return setting
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrAuth):
		return fmt.Errorf("connect to %s: %w", e.name, err)
	case ctx.Err() != nil:
		return fmt.Errorf("connect to %s at %s: %w: no answer in time", e.name, e.dialAddress(), ErrUnreachable)
	case isAuthRefusal(err):
		return fmt.Errorf("connect to %s as %s: %w: %s", e.name, e.user, ErrAuth,
			oneLine(strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")))
	}
	return fmt.Errorf("connect to %s at %s: %w: %w", e.name, e.dialAddress(), ErrUnreachable, &serverError{err})
}

// serverError is an error that contains text of an SSH server, such as a disconnect message. It
// shows the text as one printable line of limited length.
type serverError struct{ err error }

func (e *serverError) Error() string { return oneLine(e.err.Error()) }
func (e *serverError) Unwrap() error { return e.err }

// isAuthRefusal matches the texts of x/crypto/ssh and of sshd's disconnect message, because
// neither error has a type.
func isAuthRefusal(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to authenticate") || strings.Contains(text, "Too many authentication failures")
}
