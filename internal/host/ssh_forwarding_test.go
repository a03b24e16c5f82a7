package host

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
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

	if err := CheckForwarding(t.Context(), h, open, closed); err != nil {
		t.Errorf("an sshd that forwards: %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, ErrRefused) || errors.Is(err, ErrForwarding) {
		t.Errorf("dial of a port where nobody listens: %v", err)
	}
	s.permit(open)
	if err := CheckForwarding(t.Context(), h, open); err != nil {
		t.Errorf("the one that is permitted: %v", err)
	}
	if err := CheckForwarding(t.Context(), h, open, closed); !errors.Is(err, ErrForwarding) {
		t.Errorf("one that is not permitted: %v", err)
	}
	if _, err := h.Dial(t.Context(), "tcp", closed); !errors.Is(err, ErrForwarding) || errors.Is(err, ErrRefused) ||
		errors.Is(err, ErrUnreachable) {
		t.Errorf("dial of what is not permitted: %v", err)
	}
	s.cut()
	_ = s.listener.Close()
	if err := CheckForwarding(t.Context(), h, open); err != nil {
		t.Errorf("a machine that cannot be reached: %v", err)
	}
}

// answering is a Dialer with an answer of sshd.
type answering struct{ err error }

func (a answering) Dial(context.Context, string, string) (net.Conn, error) { return nil, a.err }

// TestCheckForwardingByAnswer: only what sshd forbids is returned, with its words.
func TestCheckForwardingByAnswer(t *testing.T) {
	for _, answer := range []*ssh.OpenChannelError{
		{Reason: ssh.ConnectionFailed, Message: "Connection refused"},
		{Reason: ssh.ConnectionFailed, Message: "Connection timed out"}, // ErrUnanswered
		{Reason: ssh.ConnectionFailed, Message: "Network is unreachable"},
	} {
		if err := CheckForwarding(t.Context(), answering{classifyDialError(answer)}, "10.0.0.11:6443"); err != nil {
			t.Errorf("%s: %v", answer.Message, err)
		}
	}
	forbidden := classifyDialError(&ssh.OpenChannelError{Reason: ssh.Prohibited, Message: "open failed"})
	err := CheckForwarding(t.Context(), answering{forbidden}, "10.0.0.11:6443")
	if !errors.Is(err, ErrForwarding) || !strings.HasPrefix(err.Error(), "open failed: ") {
		t.Errorf("forbidden: %v", err)
	}
}

// TestUnanswered distinguishes what a firewall may do, in sshd's words, from what says nothing about one.
func TestUnanswered(t *testing.T) {
	for text, want := range map[string]error{
		"Connection timed out": ErrUnanswered, "No route to host": ErrUnanswered, "Permission denied": ErrUnanswered,
		"Connection refused": ErrRefused, "Network is unreachable": nil, "open failed": nil,
		"Name or service not known": nil,
	} {
		err := classifyDialError(&ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: text})
		for _, known := range []error{ErrUnanswered, ErrRefused, ErrForwarding} {
			if errors.Is(err, known) != errors.Is(want, known) {
				t.Errorf("%s is %v", text, err)
			}
		}
	}
	err := classifyDialError(&ssh.OpenChannelError{Reason: ssh.Prohibited, Message: "Connection timed out"})
	if errors.Is(err, ErrUnanswered) || !errors.Is(err, ErrForwarding) {
		t.Errorf("what sshd forbids is %v", err)
	}
}
