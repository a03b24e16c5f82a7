package host

import (
	"errors"
	"net"
	"testing"
)

// TestCheckForwarding distinguishes what sshd forbids from a port on which no process listens.
func TestCheckForwarding(t *testing.T) {
	s, h := newMachine(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := listener.Addr().String()
	defer func() { _ = listener.Close() }()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := silent.Addr().String()
	_ = silent.Close()

	if err := h.CheckForwarding(t.Context(), open, closed); err != nil {
		t.Errorf("an sshd that forwards: %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, ErrRefused) || errors.Is(err, ErrForwarding) {
		t.Errorf("dial of a port where nobody listens: %v", err)
	}
	s.permit(open)
	if err := h.CheckForwarding(t.Context(), open); err != nil {
		t.Errorf("the one that is permitted: %v", err)
	}
	if err := h.CheckForwarding(t.Context(), open, closed); !errors.Is(err, ErrForwarding) {
		t.Errorf("one that is not permitted: %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, ErrForwarding) || errors.Is(err, ErrRefused) ||
		errors.Is(err, ErrUnreachable) {
		t.Errorf("dial of what is not permitted: %v", err)
	}
	s.cut()
	_ = s.listener.Close()
	if err := h.CheckForwarding(t.Context(), open); err == nil || errors.Is(err, ErrForwarding) {
		t.Errorf("a machine that cannot be reached: %v", err)
	}
}
