package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

var subnet = netip.MustParsePrefix("10.91.0.0/24")

// enterLab makes the test binary, started anew, move into the lab of that name
// and print what network it finds.
const enterLab = "LAB_TEST_ENTER"

// withLab makes the test binary, started anew, make the lab of that name (With), print
// whether its machine is new, and keep the lab until its standard input ends.
const withLab = "LAB_TEST_WITH"

func TestMain(m *testing.M) {
	if name := os.Getenv(withLab); name != "" {
		if err := useLab(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if name := os.Getenv(enterLab); name != "" {
		if err := printNetworkWithin(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func printNetworkWithin(name string) error {
	l, err := lab.Open(name)
	if err != nil {
		return err
	}
	if err := lab.Enter(l); err != nil {
		return err
	}
	addresses, err := net.InterfaceAddrs()
	fmt.Println(addresses)
	return err
}

func useLab(name string) error {
	config := lab.Config{Name: name, Subnet: subnet, Machines: []string{"a"}}
	return lab.With(context.Background(), config, func(l *lab.Lab) error {
		out, err := l.Machine("a").Run(context.Background(), "ls /etc/left-behind 2>/dev/null || echo new")
		fmt.Print(out)
		_, _ = io.ReadAll(os.Stdin)
		return err
	})
}

func TestMachines(t *testing.T) {
	l := up(t, "m", "a", "b")
	t.Run("each is a machine of its own", func(t *testing.T) { testIdentity(t, l) })
	t.Run("services of a hardened kind run", func(t *testing.T) { testHardenedService(t, l) })
	t.Run("the admin may sudo", func(t *testing.T) { testAdmin(t, l) })
	t.Run("packages install without a network", func(t *testing.T) { testPackages(t, l) })
	t.Run("nothing leads out", func(t *testing.T) { testIsolation(t, l) })
	t.Run("a program can move in", func(t *testing.T) { testEnter(t, l) })
	t.Run("a machine that is killed keeps its disk", func(t *testing.T) { testPowerOff(t, l) })
	t.Run("a cut cable isolates", func(t *testing.T) { testCable(t, l) })
	t.Run("rebuild replaces the machine", func(t *testing.T) { testRebuild(t, l) })
	t.Run("a third machine joins", func(t *testing.T) { testAdd(t, l) })
	t.Run("up again changes nothing", func(t *testing.T) { testUpAgain(t, l) })
}

func testIdentity(t *testing.T, l *lab.Lab) {
	a, b := l.Machine("a"), l.Machine("b")
	if a.Address != netip.MustParseAddr("10.91.0.11") || b.Address != netip.MustParseAddr("10.91.0.12") {
		t.Errorf("addresses are %s, %s", a.Address, b.Address)
	}
	for _, m := range l.Machines() {
		want := m.Name + "\n" + id(t, m) + "\nrunning\n"
		if got := sh(t, m, "hostname; cat /etc/machine-id; systemctl is-system-running"); got != want {
			t.Errorf("%s says it is %q, want %q", m.Name, got, want)
		}
	}
	if id(t, a) == id(t, b) {
		t.Error("both machines have the same machine id")
	}
	if hostKey(t, a) == hostKey(t, b) {
		t.Error("both machines have the same host key")
	}
	sh(t, a, "getent hosts b && timeout 5 bash -c 'head -1 </dev/tcp/b/22' | grep SSH")
}

func testHardenedService(t *testing.T, l *lab.Lab) {
	out := sh(t, l.Machine("a"), `echo secret > /root/credential
systemd-run --wait --pipe --quiet -p ProtectSystem=strict -p ProtectHome=yes -p PrivateTmp=yes -p PrivateDevices=yes \
  -p NoNewPrivileges=yes -p ProtectKernelTunables=yes -p ProtectControlGroups=yes -p RestrictNamespaces=yes \
  -p SystemCallFilter=@system-service -p AmbientCapabilities=CAP_NET_BIND_SERVICE -p StateDirectory=proof \
  -p LoadCredential=proof:/root/credential -p User=nobody \
  sh -c 'cat $CREDENTIALS_DIRECTORY/proof; touch $STATE_DIRECTORY/x /tmp/x; touch /etc/x 2>/dev/null || echo protected'
sysctl -n -w net.ipv4.ip_nonlocal_bind=1`)
	if want := "secret\nprotected\n1\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

func testAdmin(t *testing.T, l *lab.Lab) {
	m := l.Machine("a")
	out, err := l.Command(t.Context(), "ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile="+
		l.KnownHostsPath(),
		"-i", l.PrivateKeyPath(), "admin@"+m.Address.String(), "id -un; sudo -n id -un").CombinedOutput()
	if err != nil || string(out) != "admin\nroot\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

func testPackages(t *testing.T, l *lab.Lab) {
	m := l.Machine("a")
	sh(t, m, "! command -v haproxy && apt-get update && apt-get install --yes haproxy && command -v haproxy")
	if state := sh(t, m, "systemctl is-active haproxy"); state != "active\n" {
		t.Errorf("haproxy is %s", state)
	}
}

func testIsolation(t *testing.T, l *lab.Lab) {
	for where, routes := range map[string]string{
		"operator": command(t, l.Command(t.Context(), "ip", "route")),
		"machine":  sh(t, l.Machine("a"), "ip route"),
	} {
		if strings.Contains(routes, "default") || strings.Count(routes, "\n") != 1 {
			t.Errorf("routes of %s:\n%s", where, routes)
		}
	}
}

func testEnter(t *testing.T, l *lab.Lab) {
	self := exec.CommandContext(t.Context(), os.Args[0])
	self.Env = append(os.Environ(), enterLab+"="+l.Name)
	if got, want := command(t, self), "10.91.0.1/24"; !strings.Contains(got, want) {
		t.Errorf("within the lab the addresses are %s, want %s among them", got, want)
	}
}

func testPowerOff(t *testing.T, l *lab.Lab) {
	m := l.Machine("a")
	before := id(t, m)
	sh(t, m, "echo kept > /root/proof; ip address add 10.91.0.99/32 dev eth0")
	client := connected(t, l, m)
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectSilence(t, client)
	if running, err := m.Running(); err != nil || running {
		t.Fatalf("after PowerOff, running = %v, %v", running, err)
	}
	if _, err := m.Run(t.Context(), "true"); err == nil {
		t.Error("a machine that is off answers")
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, m, "cat /root/proof; ip address show dev eth0"); !strings.HasPrefix(out, "kept\n") ||
		strings.Contains(out, "10.91.0.99") {
		t.Errorf("after PowerOff, the disk or the network is wrong: %s", out)
	}
	if after := id(t, m); after != before {
		t.Errorf("the machine id changed from %s to %s", before, after)
	}
}

// connected returns a connection to the machine's SSH server, which has greeted.
func connected(t *testing.T, l *lab.Lab, m *lab.Machine) net.Conn {
	t.Helper()
	conn, err := l.DialContext(t.Context(), "tcp", net.JoinHostPort(m.Address.String(), "22"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(conn, 256).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return conn
}

// expectSilence: nobody tells the other end of a connection that the machine has died.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the other end of a connection to a dead machine read %d bytes, %v: want nothing", n, err)
	}
}

func testCable(t *testing.T, l *lab.Lab) {
	m := l.Machine("a")
	sh(t, m, "systemd-run --quiet --unit=proof sleep 1000")
	if err := m.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context(), "true"); err == nil {
		t.Error("a machine with its cable cut answers")
	}
	if err := m.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, m, "systemctl is-active proof"); out != "active\n" {
		t.Errorf("the machine did not keep running: %s", out)
	}
}

func testRebuild(t *testing.T, l *lab.Lab) {
	m := l.Machine("a")
	oldID, oldKey := id(t, m), hostKey(t, m)
	sh(t, m, "touch /root/proof")
	if err := m.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, m, "! test -e /root/proof")
	if id(t, m) == oldID || hostKey(t, m) == oldKey {
		t.Error("the new machine has the old one's identity")
	}
	known, err := l.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(known, oldKey) || !strings.Contains(known, hostKey(t, m)) {
		t.Errorf("known hosts:\n%s", known)
	}
}

func testAdd(t *testing.T, l *lab.Lab) {
	if err := l.Add(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if address := l.Machine("c").Address; address != netip.MustParseAddr("10.91.0.13") {
		t.Errorf("address is %s", address)
	}
	sh(t, l.Machine("a"), "getent hosts c")
	sh(t, l.Machine("c"), "getent hosts a")
}

func testUpAgain(t *testing.T, l *lab.Lab) {
	up := func() time.Duration {
		start := time.Now()
		if _, err := lab.Up(t.Context(), lab.Config{
			Name: l.Name, Machines: []string{"a", "b"},
			Log: io.Discard,
		}); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	before := sh(t, l.Machine("a"),
		"cat /proc/sys/kernel/random/boot_id; uptime --since; systemctl show --property=UserspaceTimestampMonotonic")
	t.Logf("up on a running lab took %s", up())
	after := sh(t, l.Machine("a"),
		"cat /proc/sys/kernel/random/boot_id; uptime --since; systemctl show --property=UserspaceTimestampMonotonic")
	if before != after {
		t.Errorf("the machine was restarted: %s, then %s", before, after)
	}
}

func TestDestroyLeavesNothing(t *testing.T) {
	requireLab(t)
	for name, cutOff := range map[string]time.Duration{
		"whole lab":       time.Hour,
		"barely begun":    20 * time.Millisecond,
		"while it boots":  200 * time.Millisecond,
		"later in a boot": 400 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			// Builds the base tree, whatever becomes of the lab.
			_, _ = lab.Up(t.Context(), lab.Config{Name: labName("base"), Subnet: subnet, Log: io.Discard})
			destroy(t, labName("base"))
			before := interfaces(t)

			ctx, cancel := context.WithTimeout(t.Context(), cutOff)
			defer cancel()
			l, err := lab.Up(ctx, lab.Config{Name: labName("d"), Subnet: subnet, Machines: []string{"a", "b"}, Log: io.Discard})
			if err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			destroy(t, labName("d"))
			destroy(t, labName("d")) // what is gone can be destroyed again
			if l != nil {
				if _, err := lab.Open(l.Name); !errors.Is(err, lab.ErrNoLab) {
					t.Errorf("Open gives %v, want %v", err, lab.ErrNoLab)
				}
			}
			if rests := leftovers(t, labName("d")); len(rests) > 0 {
				t.Errorf("left over: %s", strings.Join(rests, "; "))
			}
			if after := interfaces(t); !slices.Equal(before, after) {
				t.Errorf("network interfaces before: %s; after: %s", before, after)
			}
		})
	}
}

// TestWithDestroysAFailedLab: a lab that could not be made is not left behind.
func TestWithDestroysAFailedLab(t *testing.T) {
	requireLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	config := lab.Config{Name: labName("w"), Subnet: subnet, Machines: []string{"a", "b"}, Log: io.Discard}
	err := lab.With(ctx, config, func(*lab.Lab) error {
		t.Error("fn was called")
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("With gives %v, want %v", err, context.DeadlineExceeded)
	}
	if rests := leftovers(t, labName("w")); len(rests) > 0 {
		t.Errorf("left over: %s", strings.Join(rests, "; "))
	}
}

// TestNewLab: a lab that a killed process left behind is not used again, and one that
// another process uses is not touched. The process is one that Enter starts again.
func TestNewLab(t *testing.T) {
	requireLab(t)
	config := lab.Config{Name: labName("n"), Subnet: subnet, Machines: []string{"a"}, Log: io.Discard}
	left := upWith(t, config)
	sh(t, left.Machine("a"), "touch /etc/left-behind")

	user := exec.CommandContext(t.Context(), os.Args[0])
	user.Env = append(os.Environ(), withLab+"="+config.Name)
	user.Stderr = t.Output()
	in, err := user.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := user.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "new\n" || err != nil {
		t.Fatalf("the process finds %q on its machine, %v", line, err)
	}

	var log strings.Builder
	config.Log = &log
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, destroy, err := lab.New(ctx, config)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("New gives %v for a lab in use", err)
	}
	if err := destroy(); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "another process uses it") != 1 {
		t.Errorf("the log is %q", log.String())
	}
	opened, err := lab.Open(config.Name)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, opened.Machine("a"), "true")

	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := user.Wait(); err != nil {
		t.Error(err)
	}
	if rests := leftovers(t, config.Name); len(rests) > 0 {
		t.Errorf("left over: %s", strings.Join(rests, "; "))
	}
}
