package host

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"
)

// escapeSequence is text that an SSH server may send where the protocol allows text.
var escapeSequence = "\x1b]0;owned\x07\x1b[31m\u009b2J\u202e\xff\nCause: none\n" + strings.Repeat("long ", 20_000)

// mild checks that an error shows an SSH server's text as one printable line of limited length.
func mild(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	text := err.Error()
	if len(text) > 2<<10 {
		t.Errorf("%s: an error of %d bytes", what, len(text))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s: it is not visible: %.300q", what, text)
	}
}

// TestHostileServer covers what happens before and around a command.
func TestHostileServer(t *testing.T) {
	client := newClient(t)
	connect := func(address *net.TCPAddr, key ssh.PublicKey) (*Host, error) {
		h := openPool(t, Config{
			Credentials: Credentials{PrivateKey: client.pem}, ConnectTimeout: 2 * time.Second,
			Overrides: map[string]Override{machineName: {
				Address: address.IP.String(), Port: address.Port,
				HostKey: keyLine(key),
			}},
		}).Host(Target{machineName})
		begun := time.Now()
		_, err := h.Run(t.Context(), Command{Script: "true"})
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		return h, err
	}
	key := newSigner(t).PublicKey()
	for name, serve := range map[string]func(net.Conn){
		"words without end":    func(c net.Conn) { pour(c, []byte(escapeSequence)) },
		"one line without end": func(c net.Conn) { pour(c, bytes.Repeat([]byte("x"), 1<<16)) },
		"a version and no more": func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-" + escapeSequence[:100] + "\r\n"))
			pour(c, nil)
		},
		"a version and rubbish": func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-x\r\n"))
			pour(c, []byte(escapeSequence))
		},
		"a packet of four bytes": func(c net.Conn) {
			_, _ = c.Write([]byte("SSH-2.0-x\r\n\xff\xff\xff\xff"))
			pour(c, make([]byte, 1<<16))
		},
		"silence": func(c net.Conn) { pour(c, nil) },
		"nothing": func(net.Conn) {},
	} {
		_, err := connect(listenAndServe(t, serve), key)
		if mild(t, name, err); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v, want ErrUnreachable", name, err)
		}
	}

	banner := newTestServer(t, nil, func(c *ssh.ServerConfig) {
		c.BannerCallback = func(ssh.ConnMetadata) string {
			return escapeSequence
		}
	})
	_, err := connect(banner.listener.Addr().(*net.TCPAddr), banner.key.PublicKey())
	if mild(t, "a banner, and no way in", err); !errors.Is(err, ErrAuth) {
		t.Errorf("%v, want ErrAuth", err)
	}

	rude := newTestServer(t, client.signer.PublicKey(), nil)
	rude.refusal = escapeSequence
	h, err := connect(rude.listener.Addr().(*net.TCPAddr), rude.key.PublicKey())
	mild(t, "a refused session", err)
	_, err = h.Dial(t.Context(), "tcp", "127.0.0.1:2379")
	if mild(t, "a refused tunnel", err); !errors.Is(err, ErrForwarding) {
		t.Errorf("%v, want ErrForwarding", err)
	}
}

// pour writes until the connection is closed, or waits for that.
func pour(c net.Conn, what []byte) {
	if len(what) == 0 {
		_, _ = c.Read(make([]byte, 1<<10)) // the client's version
		_, _ = c.Read(make([]byte, 1))
		time.Sleep(5 * time.Second)
		return
	}
	for {
		if _, err := c.Write(what); err != nil {
			return
		}
	}
}

// listenAndServe is a TCP server that sends data to every client.
func listenAndServe(t *testing.T, serve func(net.Conn)) *net.TCPAddr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr)
}
