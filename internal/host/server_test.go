package host

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// machineName is the cluster address of the in-process server's machine. It cannot be resolved;
// the dialled address comes from the override.
const machineName = "machine.test"

// testServer is a real SSH server in this process. Its commands run in the real sh of this
// computer. As with sshd, each has a session of its own, and does not end with the connection.
type testServer struct {
	t        *testing.T
	listener net.Listener
	config   *ssh.ServerConfig
	key      ssh.Signer // the host key that tests pin

	environment []string // added to that of commands
	private     string   // the directory of the commands' /opt and /run, if they are isolated
	hidden      []string // programs that isolated commands cannot find
	refusal     string   // message for refused sessions and tunnels; "": nothing is refused
	cutAfter    int64    // bytes of standard input after which the network is lost; 0: never

	mu          sync.Mutex
	connections []net.Conn // all that were ever accepted
	lines       []string   // command lines, in order
	tunnels     int
	permitted   []string // permitted tunnel destinations (sshd's PermitOpen); nil: any
	maxSessions int      // 0: no limit
	sessions    int
	limitHit    bool
	peak        int
}

// newTestServer serves until the test ends. configure may be nil; without it the server accepts
// the client key.
func newTestServer(t *testing.T, authorized ssh.PublicKey, configure func(*ssh.ServerConfig)) *testServer {
	t.Helper()
	s := &testServer{t: t, key: newSigner(t)}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if authorized != nil && string(key.Marshal()) == string(authorized.Marshal()) {
				return nil, nil
			}
			return nil, errors.New("not authorized")
		},
	}
	s.config.AddHostKey(s.key)
	if configure != nil {
		configure(s.config)
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go s.accept()
	t.Cleanup(func() {
		_ = s.listener.Close()
		s.cut()
	})
	return s
}

// isolate gives commands their own /opt and /run, and the right to change owners.
func (s *testServer) isolate() {
	s.t.Helper()
	if os.Geteuid() != 0 {
		testrun.Missing(s.t, "changing owners and mounting need root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		testrun.Missing(s.t, "unshare (util-linux) is missing")
	}
	s.private = s.t.TempDir()
	for _, name := range []string{"opt", "run"} {
		if err := os.Mkdir(filepath.Join(s.private, name), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
}

// isolated returns a command that sees private/opt and private/run as /opt and /run.
func isolated(private string, words ...string) *exec.Cmd {
	const mount = `mount --bind "$0/opt" /opt && mount --bind "$0/run" /run && exec "$@"`
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", mount, private}, words...)...)
}

// hide mounts a device, which is not a program, over each program.
func hide(programs []string) string {
	var b strings.Builder
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			b.WriteString("mount --bind /dev/null " + path + " && ")
		}
	}
	return b.String()
}

func (s *testServer) port() int {
	return s.listener.Addr().(*net.TCPAddr).Port
}

func (s *testServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.connections = append(s.connections, conn)
		s.mu.Unlock()
		go s.serve(conn)
	}
}

// cut ends every connection, like a lost network once the loss is detected.
func (s *testServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.connections {
		_ = conn.Close()
	}
}

func (s *testServer) connectionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

// commandLines returns the commands so far, without the search for orphans that precedes the
// first change through a connection.
func (s *testServer) commandLines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.lines), func(line string) bool { return strings.Contains(line, "PPid:") })
}

func (s *testServer) serve(raw net.Conn) {
	conn, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		_ = raw.Close()
		return
	}
	defer func() { _ = conn.Close() }()
	go ssh.DiscardRequests(requests) // answers keepalives with "failure", like sshd
	for channel := range channels {
		if s.refusal != "" {
			_ = channel.Reject(ssh.Prohibited, s.refusal)
			continue
		}
		switch channel.ChannelType() {
		case "session":
			if !s.enter() {
				_ = channel.Reject(ssh.ConnectionFailed, "open failed") // sshd's message at MaxSessions
				continue
			}
			go s.session(channel)
		case "direct-tcpip":
			go s.tunnel(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "")
		}
	}
}

func (s *testServer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxSessions > 0 && s.sessions >= s.maxSessions {
		s.limitHit = true
		return false
	}
	s.sessions++
	s.peak = max(s.peak, s.sessions)
	return true
}

func (s *testServer) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
}

func (s *testServer) session(offered ssh.NewChannel) {
	channel, requests, err := offered.Accept()
	if err != nil {
		s.leave()
		return
	}
	defer func() {
		s.leave() // before the client learns that it may open another session
		_ = channel.Close()
	}()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		var payload struct{ Line string }
		if err := ssh.Unmarshal(request.Payload, &payload); err != nil {
			return
		}
		_ = request.Reply(true, nil)
		go ssh.DiscardRequests(requests)
		name, how := s.command(channel, payload.Line)
		_, _ = channel.SendRequest(name, false, how)
		return
	}
}

// command runs a command line, and returns how it ended: the name and the content of a message to the client.
func (s *testServer) command(channel ssh.Channel, line string) (name string, how []byte) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
	command := exec.Command("sh", "-c", line)
	if s.private != "" {
		command = isolated(s.private, "sh", "-c", line)
		command.Args[4] = hide(s.hidden) + command.Args[4]
	}
	command.Env = append(os.Environ(), s.environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stdout, command.Stderr = channel, channel.Stderr()
	stdin, err := command.StdinPipe()
	if err != nil || command.Start() != nil {
		return "exit-status", ssh.Marshal(struct{ Status uint32 }{255})
	}
	go func() {
		if s.cutAfter > 0 {
			if _, err := io.CopyN(stdin, channel, s.cutAfter); err == nil {
				s.cut() // data that has arrived beyond that is lost too
			}
		} else {
			_, _ = io.Copy(stdin, channel)
		}
		_ = stdin.Close()
	}()
	_ = command.Wait()
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return "exit-signal", ssh.Marshal(struct {
			Signal        string
			Core          bool
			Text, Written string
		}{Signal: string(ssh.SIGKILL)})
	}
	//nolint:gosec // -1 for another signal is as good as any other
	return "exit-status", ssh.Marshal(struct{ Status uint32 }{uint32(command.ProcessState.ExitCode())})
}

// permit restricts tunnels to addresses.
func (s *testServer) permit(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permitted = addresses
}

func (s *testServer) permits(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.permitted == nil || slices.Contains(s.permitted, address)
}

func (s *testServer) tunnel(offered ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(offered.ExtraData(), &target); err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	to := net.JoinHostPort(target.Host, strconv.Itoa(int(target.Port)))
	if !s.permits(to) {
		_ = offered.Reject(ssh.Prohibited, "open failed") // sshd's message
		return
	}
	conn, err := net.Dial("tcp", to)
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	channel, requests, err := offered.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	s.mu.Lock()
	s.tunnels++
	s.mu.Unlock()
	go ssh.DiscardRequests(requests)
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(conn, channel); _ = conn.(*net.TCPConn).CloseWrite() })
	both.Go(func() { _, _ = io.Copy(channel, conn); _ = channel.CloseWrite() })
	both.Wait()
	_ = channel.Close()
	_ = conn.Close()
}

// testClient is a key and its PEM text.
type testClient struct {
	signer ssh.Signer
	pem    string
	raw    ed25519.PrivateKey
}

func newClient(t *testing.T) testClient {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	return testClient{signer, string(pem.EncodeToMemory(block)), key}
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	return newClient(t).signer
}

// configFor returns a configuration to reach s with its pinned key.
func configFor(s *testServer, client testClient) Config {
	return Config{
		Credentials: Credentials{PrivateKey: client.pem},
		Overrides: map[string]Override{
			machineName: {Address: "127.0.0.1", Port: s.port(), HostKey: keyLine(s.key.PublicKey())},
		},
		ConnectTimeout: 5 * time.Second,
	}
}

func openPool(t *testing.T, config Config) *Pool {
	t.Helper()
	pool, err := NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// newMachine returns a server and the host that reaches it.
func newMachine(t *testing.T) (*testServer, *Host) {
	t.Helper()
	client := newClient(t)
	s := newTestServer(t, client.signer.PublicKey(), nil)
	return s, openPool(t, configFor(s, client)).Host(Target{Address: machineName})
}

// newRootMachine returns one whose commands may change owners, /opt and /run.
func newRootMachine(t *testing.T) (*testServer, *Host) {
	t.Helper()
	s, h := newMachine(t)
	s.isolate()
	return s, h
}

// eventually waits for a condition outside this process.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("still not: %s", what)
}

func mustContain(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want one with %q", err, want)
	}
}
