package simulated

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// serve serves one SSH connection to the machine. Every login is accepted.
func (m *machine) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, nil
	}}
	config.AddHostKey(m.fleet.key)
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	m.fleet.connections.Add(1)
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		switch opened.ChannelType() {
		case "session":
			go m.session(opened)
		case "direct-tcpip":
			go m.tunnel(conn, opened)
		default:
			_ = opened.Reject(ssh.UnknownChannelType, "not simulated")
		}
	}
}

// session runs the one command of a session.
func (m *machine) session(opened ssh.NewChannel) {
	channel, requests, err := opened.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		var exec struct{ Line string }
		if ssh.Unmarshal(request.Payload, &exec) != nil {
			_ = request.Reply(false, nil)
			return
		}
		_ = request.Reply(true, nil)
		status := struct{ Code uint32 }{}
		if err := m.run(exec.Line, channel); err != nil {
			_, _ = io.WriteString(channel.Stderr(), err.Error()+"\n")
			status.Code = 70
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

// run runs one command line, or passes it to the machine's front.
func (m *machine) run(line string, channel ssh.Channel) error {
	honest := func(stdin io.Reader, stdout io.Writer) error {
		out := bufio.NewWriter(stdout)
		return errors.Join(m.execute(line, stdin, out), out.Flush())
	}
	if front := m.front.Load(); front != nil {
		return (*front)(line, channel, honest)
	}
	return honest(channel, channel)
}

// front intercepts the commands of a machine. It answers each, with or without the machine's
// own answer. Tests use it to observe a machine, or to forge its answers.
type front func(line string, channel ssh.Channel, honest func(stdin io.Reader, stdout io.Writer) error) error

// Hang makes a machine accept connections and commands that never end, until end is called.
func (f *Fleet) Hang(address string) (end func()) {
	ended := make(chan struct{})
	hung := front(func(string, ssh.Channel, func(io.Reader, io.Writer) error) error {
		<-ended
		return errors.New("it hung")
	})
	f.machines[address].front.Store(&hung)
	return sync.OnceFunc(func() { close(ended) })
}

// tunnel passes a TCP connection inside SSH to the server at its end.
func (m *machine) tunnel(conn *ssh.ServerConn, opened ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(opened.ExtraData(), &to) != nil {
		_ = opened.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	other := m
	if to.Host != "127.0.0.1" && to.Host != m.address {
		other = m.fleet.machines[to.Host]
	}
	if other == nil || !other.listens(int(to.Port)) {
		_ = opened.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	channel, requests, err := opened.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	m.fleet.tunnels.Add(1)
	other.servers.accept(other, int(to.Port),
		&tunnelled{Channel: channel, local: conn.LocalAddr(), remote: conn.RemoteAddr()})
}

// tunnelled is a channel as a net.Conn. It has no deadlines: the servers here set none that
// matter, and clients end their connections.
type tunnelled struct {
	ssh.Channel
	local, remote net.Addr
}

func (t *tunnelled) LocalAddr() net.Addr              { return t.local }
func (t *tunnelled) RemoteAddr() net.Addr             { return t.remote }
func (t *tunnelled) SetDeadline(time.Time) error      { return nil }
func (t *tunnelled) SetReadDeadline(time.Time) error  { return nil }
func (t *tunnelled) SetWriteDeadline(time.Time) error { return nil }
