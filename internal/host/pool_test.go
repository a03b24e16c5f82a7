package host

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestParallelCallersShareOneConnection(t *testing.T) {
	s, h := newMachine(t)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := h.Run(t.Context(), Command{Script: "sleep 0.05"}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if s.connectionCount() != 1 {
		t.Errorf("%d connections, want 1", s.connectionCount())
	}
	if s.peak > maxSessions {
		t.Errorf("%d sessions at once, want at most %d", s.peak, maxSessions)
	}
}

func TestServerWithFewSessions(t *testing.T) {
	s, h := newMachine(t)
	s.maxSessions = 2
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			if _, err := h.Run(t.Context(), Command{Script: "sleep 0.02"}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if !s.limitHit {
		t.Error("the server's limit was never met: nothing was tested")
	}
}

func TestReconnect(t *testing.T) {
	s, h := newMachine(t)
	for range 3 {
		if _, err := h.Run(t.Context(), Command{Script: "true"}); err != nil {
			t.Fatal(err)
		}
		s.cut()
	}
	if s.connectionCount() != 3 {
		t.Errorf("%d connections, want 3", s.connectionCount())
	}
}

// TestLossDuringCommand: a command that may have begun is not run a second time, unless it only
// reads.
func TestLossDuringCommand(t *testing.T) {
	s, h := newMachine(t)
	log := t.TempDir() + "/log"
	waitFor := func(lines int) {
		eventually(t, "the command runs", func() bool {
			out, err := h.Run(t.Context(), Command{Script: Script("cat " + log + " 2>/dev/null || true")})
			return err == nil && strings.Count(out, "\n") == lines
		})
	}
	script := "echo begun >>" + log + "\nif [ $(wc -l <" + log + ") -lt 3 ]; then exec sleep 60; fi"

	failed := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), Command{Script: Script(script)})
		failed <- err
	}()
	waitFor(1)
	s.cut()
	if err := <-failed; !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	waitFor(1)

	go func() {
		_, err := h.Observe(t.Context(), Query{Script: Script(script)})
		failed <- err
	}()
	waitFor(2)
	s.cut()
	if err := <-failed; err != nil {
		t.Fatalf("a read over a lost connection: %v", err)
	}
	waitFor(3)
}

// TestKeepalive freezes the network: packets are dropped, no connection is closed.
func TestKeepalive(t *testing.T) {
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	var frozen atomic.Bool
	proxy := freezer(t, s.listener.Addr().String(), &frozen)
	config := configFor(s, client)
	o := config.Overrides[machineName]
	o.Port = proxy
	config.Overrides[machineName] = o
	config.Keepalive = 50 * time.Millisecond
	config.ConnectTimeout = 300 * time.Millisecond
	h := openPool(t, config).Host(Target{machineName})
	if _, err := h.Run(t.Context(), Command{Script: "sleep 0.5"}); err != nil {
		t.Fatalf("a quiet command on a live connection: %v", err)
	}

	failed := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), Command{Script: "sleep 60"})
		failed <- err
	}()
	eventually(t, "the command runs", func() bool { return len(s.commandLines()) == 2 })
	frozen.Store(true)
	select {
	case err := <-failed:
		if !errors.Is(err, ErrUnreachable) {
			t.Fatalf("error %v, want ErrUnreachable", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the command still waits on a dead connection")
	}
	_, err := h.Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("dial into a frozen network: %v, want ErrUnreachable", err)
	}
	frozen.Store(false)
	eventually(t, "the machine is dialled again", func() bool {
		_, err := h.Run(t.Context(), Command{Script: "true"})
		return err == nil
	})
}

// freezer is a TCP proxy that drops everything while frozen is set.
func freezer(t *testing.T, target string, frozen *atomic.Bool) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	pipe := func(to, from net.Conn) {
		defer func() { _ = to.Close() }()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if frozen.Load() {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			go pipe(out, in)
			go pipe(in, out)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestTunnelConnectionRefused(t *testing.T) {
	s, h := newMachine(t)
	_ = s.listener.Close()
	_, err := h.Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	mustContain(t, err, "connect to "+machineName)
	mustContain(t, err, "connection refused")
}

// TestSilentServer: the timeout covers the handshake, and if one caller gives up, the dial
// continues for the others.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // accepts in the kernel, never answers
	client := newClient(t)
	config := Config{
		Credentials:    Credentials{PrivateKey: client.pem, Port: listener.Addr().(*net.TCPAddr).Port},
		ConnectTimeout: 300 * time.Millisecond,
	}
	h := openPool(t, config).Host(Target{"127.0.0.1"})
	ctx, cancel := context.WithCancel(t.Context())
	firstResult := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, Command{Script: "true"})
		firstResult <- err
	}()
	secondResult := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), Command{Script: "true"})
		secondResult <- err
	}()
	cancel()
	if err := <-firstResult; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled caller: %v", err)
	}
	err = <-secondResult
	if !errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	mustContain(t, err, "no answer in time")
	started := time.Now()
	if _, err := h.Run(t.Context(), Command{Script: "true"}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want ErrUnreachable", err)
	}
	if took := time.Since(started); took >= config.ConnectTimeout/2 {
		t.Errorf("the next caller waited %v for a machine known to be silent", took)
	}
}

func TestClosedPool(t *testing.T) {
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	pool := openPool(t, configFor(s, client))
	h := pool.Host(Target{machineName})
	failed := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), Command{Script: "sleep 60"})
		failed <- err
	}()
	eventually(t, "the command runs", func() bool { return len(s.commandLines()) == 1 })
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrUnreachable) {
		t.Errorf("running command: %v, want ErrUnreachable", err)
	}
	if _, err := h.Run(t.Context(), Command{Script: "true"}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("new command: %v, want ErrUnreachable", err)
	}
	if s.connectionCount() != 1 {
		t.Errorf("%d connections, want 1", s.connectionCount())
	}
}

func TestTunnel(t *testing.T) {
	s, h := newMachine(t)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	talk := func() {
		t.Helper()
		conn, err := h.Dial(t.Context(), "tcp", echo.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 5)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "hello" {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	var callers sync.WaitGroup
	for range 20 { // tunnels are not limited like sessions
		callers.Go(talk)
	}
	callers.Wait()
	s.cut()
	talk()
	if s.connectionCount() != 2 || s.tunnels != 21 {
		t.Errorf("%d connections and %d tunnels, want 2 and 21", s.connectionCount(), s.tunnels)
	}

	_, err = h.Dial(t.Context(), "tcp", "127.0.0.1:1")
	if err == nil || errors.Is(err, ErrUnreachable) {
		t.Errorf("closed port: %v; the machine itself was reached", err)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:etcd", "127.0.0.1:0"} {
		if _, err := h.Dial(t.Context(), "tcp", bad); err == nil {
			t.Errorf("dial %q succeeded", bad)
		}
	}
	if _, err := h.Dial(t.Context(), "udp", "127.0.0.1:53"); err == nil {
		t.Error("UDP dial succeeded")
	}
	talk()
	if s.connectionCount() != 2 {
		t.Errorf("%d connections: a refusal by the target must not end the connection", s.connectionCount())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Dial(ctx, "tcp", echo.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled dial: %v", err)
	}
}
