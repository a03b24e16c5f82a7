package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// hangingSudo returns a machine whose user is not root, and on which sudo never ends.
func hangingSudo(t *testing.T, connectTimeout time.Duration) (*testServer, *Host) {
	t.Helper()
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "sudo"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.environment = []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
	config := configFor(s, client)
	config.User = "user"
	config.ConnectTimeout = connectTimeout
	return s, openPool(t, config).Host(Target{Address: machineName})
}

// TestSudoHangs: a machine that accepts the login and hangs is not lost if the user is not root either. It may serve.
func TestSudoHangs(t *testing.T) {
	s, h := hangingSudo(t, 300*time.Millisecond)
	mayServe := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrNoAnswer) || !Unanswered(err) || AbandonedAt(machineName).Covers(machineName, err) {
			t.Errorf("%s: %v, want an error of a machine that hangs", what, err)
		}
	}
	_, err := h.Observe(t.Context(), Query{})
	mayServe("an observation", err)
	mustContain(t, err, "connect to "+machineName)
	_, err = TakeLeases(t.Context(), []LeaseTaker{h}, "test", LeaseOptions{})
	mayServe("a lease", err)
	if !Unreachable(err) {
		t.Errorf("%v: a deletion leaves rotation only if the machine is unreachable", err)
	}
	if len(s.commandLines()) == 0 {
		t.Error("sudo was never run")
	}
}

// TestSudoHangsLonger: nor is it lost if the time of the caller ends before that of the connection.
func TestSudoHangsLonger(t *testing.T) {
	s, h := hangingSudo(t, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := h.Observe(ctx, Query{})
		first <- err
	}()
	eventually(t, "sudo runs", func() bool { return len(s.commandLines()) > 0 })
	err := Within(t.Context(), 50*time.Millisecond, machineName, func(ctx context.Context) error {
		_, err := h.Observe(ctx, Query{})
		return err
	})
	if !errors.Is(err, ErrNoAnswer) || AbandonedAt(machineName).Covers(machineName, err) {
		t.Errorf("an observation: %v, want ErrNoAnswer", err)
	}
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := h.TakeLease(short, "test", "test", nil); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a lease: %v, want ErrNoAnswer", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoAnswer) {
		t.Errorf("a caller that was cancelled: %v", err)
	}
}
