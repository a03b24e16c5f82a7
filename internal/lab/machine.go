package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "embed"

	"k8s.io/apimachinery/pkg/util/wait"
)

// bootTimeout is much longer than a boot (0.7 s alone, a few seconds when many
// machines boot at once on two CPUs).
const bootTimeout = 90 * time.Second

//go:embed boot.sh
var bootScript string

//go:embed power.sh
var powerScript string

// Machine is one machine of a lab.
type Machine struct {
	Name     string
	Address  netip.Addr
	Address6 netip.Addr // zero if the lab has no IPv6

	lab    *Lab
	number netip.Addr // its IPv4 address, also in a lab without IPv4
}

// addresses lists the machine's addresses as known_hosts does.
func (m *Machine) addresses() string {
	if !m.Address6.IsValid() || m.Address6 == m.Address {
		return m.Address.String()
	}
	return m.Address.String() + "," + m.Address6.String()
}

// Running reports whether the machine is on: whether any of its processes exists.
func (m *Machine) Running() (bool, error) {
	pids, err := cgroupProcesses(m.cgroup())
	return len(pids) > 0, err
}

// PowerOff switches the machine off, as a power failure does: nothing that it sends reaches anybody any
// more, then all its processes are killed at once. It returns when they and all they held are gone. The
// disk keeps what was written, whether or not it was flushed: see CutPower.
func (m *Machine) PowerOff(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return m.powerOff(ctx)
}

func (m *Machine) powerOff(ctx context.Context) error {
	if err := m.silence(ctx); err != nil {
		return fmt.Errorf("power off %s: %w", m.Name, err)
	}
	if m.onImage() {
		_ = m.ResumeDisk() // what waits for a disk does not end; most disks need not be resumed
	}
	if err := killCgroup(ctx, m.cgroup()); err != nil {
		return fmt.Errorf("power off %s: %w", m.Name, err)
	}
	if err := waitForUnmount(ctx, m.path()); err != nil {
		return fmt.Errorf("unmount the disk of %s: %w", m.Name, err)
	}
	return nil
}

// Boot switches the machine on, with its cable plugged in, and waits until it is
// up. It does nothing to a running machine.
func (m *Machine) Boot(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return m.boot(ctx)
}

func (m *Machine) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	running, err := m.Running()
	if err != nil {
		return err
	}
	if !running {
		if err := m.makeDisk(ctx, m.lab.state.DiskImages); err != nil {
			return fmt.Errorf("make disk of %s: %w", m.Name, err)
		}
		if err := m.start(ctx); err != nil {
			return fmt.Errorf("boot %s: %w", m.Name, err)
		}
	}
	if err := m.lab.writeKnownHosts(ctx); err != nil {
		return err
	}
	if err := m.waitForSSH(ctx); err != nil {
		return fmt.Errorf("boot %s: %w (its console: %s)", m.Name, err, m.path("console.log"))
	}
	return nil
}

// Rebuild replaces the machine by a new one at the same address: empty disk, new
// machine id, new host key.
func (m *Machine) Rebuild(ctx context.Context) error {
	return m.rebuild(ctx, m.lab.state.DiskImages, false)
}

func (m *Machine) rebuild(ctx context.Context, onImage, containers bool) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.powerOff(ctx); err != nil {
		return err
	}
	for _, disk := range []string{m.imagePath(), m.path("disk"), m.containersPath()} {
		if err := os.RemoveAll(disk); err != nil {
			return fmt.Errorf("rebuild %s: %w", m.Name, err)
		}
	}
	if err := m.makeDisk(ctx, onImage); err != nil {
		return fmt.Errorf("make disk of %s: %w", m.Name, err)
	}
	if containers {
		if err := os.MkdirAll(m.containersPath(), 0o755); err != nil {
			return fmt.Errorf("rebuild %s: %w", m.Name, err)
		}
	}
	return m.boot(ctx)
}

// silence pulls the cable of a machine that is on. Otherwise the kernel would close the connections of killed
// processes, and their peers would know at once what they must find out about a dead machine by themselves.
// The cable ends with the machine: the next boot makes another one.
func (m *Machine) silence(ctx context.Context) error {
	running, err := m.Running()
	if err != nil || !running {
		return err
	}
	if err := m.Cut(ctx); err != nil && m.lab.ip(ctx, "link", "show", "dev", m.Name) == nil {
		return err // without a cable, the machine has just ended, or has not begun
	}
	return nil
}

// Cut pulls the network cable: the machine keeps running and reaches nobody.
func (m *Machine) Cut(ctx context.Context) error {
	return m.lab.ip(ctx, "link", "set", "dev", m.Name, "down")
}

// Heal plugs the network cable in again.
func (m *Machine) Heal(ctx context.Context) error {
	return m.lab.ip(ctx, "link", "set", "dev", m.Name, "up")
}

// start starts the machine's first process, in a session of its own, so that the
// machine outlives this program.
func (m *Machine) start(ctx context.Context) error {
	procs, err := makeCgroup(m.cgroup())
	if err != nil {
		return err
	}
	console, err := os.Create(m.path("console.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	cmd := exec.Command("sh", "-c", powerScript, "machine", bootScript)
	address := netip.PrefixFrom(m.Address, m.lab.Subnet.Bits()).String()
	if m.lab.state.IPv6Only {
		address = ""
	}
	address6, subnet6 := "", ""
	if m.Address6.IsValid() {
		address6, subnet6 = netip.PrefixFrom(m.Address6, m.lab.Subnet6.Bits()).String(), m.lab.Subnet6.String()
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"CGROUP_PROCS=" + strings.Join(procs, " "),
		"BASE=" + m.lab.state.Base, "DISK=" + m.path("disk"), "ROOT=" + m.path("root"),
		"LAB_NETNS=" + m.lab.NetNS(), "BRIDGE=" + bridge, "MACHINE=" + m.Name,
		"ADDRESS=" + address, "SUBNET=" + m.lab.Subnet.String(),
		"ADDRESS6=" + address6, "SUBNET6=" + subnet6, "MAC=" + m.mac(),
		"CONTAINERS=" + m.containersPath(),
		"ID=" + m.lab.NetNS() + "-" + m.Name,
	}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // also reaps it, should it end before this program
		defer close(ended)
		_ = cmd.Wait()
	}()
	return m.waitForPower(ctx, ended)
}

// waitForPower waits until the machine's first process has joined its cgroup: until
// then the machine would look switched off.
func (m *Machine) waitForPower(ctx context.Context, ended <-chan struct{}) error {
	return wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		select {
		case <-ended:
			return false, errors.New("its first process ended at once (its console: " + m.path("console.log") + ")")
		default:
			return m.Running()
		}
	})
}

// mac is the same at each boot. With another one the others would keep sending to
// the old one for as long as their ARP entries live, half a minute and more.
func (m *Machine) mac() string { return macOf(m.number) }

// macOf returns the hardware address of whoever has an IPv4 address in the lab.
func macOf(address netip.Addr) string {
	ip := address.As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
}

// waitForSSH waits until sshd answers and the boot is complete.
func (m *Machine) waitForSSH(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if m.answers(ctx) {
			return true, nil
		}
		running, err := m.Running()
		if err == nil && !running {
			err = errors.New("the machine stopped")
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("wait for sshd: %w", err)
	}
	// Only a machine that booted far enough lets users other than root in. Its state may well be "degraded": a disk that
	// tests have broken is booted too. It stays "starting" if a member of etcd waits for a quorum.
	out, err := m.Run(ctx, "timeout 20 systemctl is-system-running --wait >/dev/null || true\n"+
		"systemctl is-active systemd-user-sessions >/dev/null || { systemctl list-jobs; exit 1; }")
	if err != nil {
		return fmt.Errorf("wait for the boot: %w: %s", err, out)
	}
	return nil
}

// answers reports whether an SSH server greets.
func (m *Machine) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := m.lab.DialContext(ctx, "tcp", net.JoinHostPort(m.Address.String(), "22"))
	if err != nil {
		return false
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	greeting, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(greeting, "SSH-")
}

func (m *Machine) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = lockDir(ctx, m.path())
	if err != nil {
		return nil, fmt.Errorf("lock machine %s: %w", m.Name, err)
	}
	return unlock, nil
}

func (m *Machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.lab.path("machines", m.Name)}, elem...)...)
}
