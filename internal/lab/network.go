package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bridge is the switch that the machines' cables end in.
const bridge = "bridge"

// NetNS is the name of the lab's network namespace.
func (l *Lab) NetNS() string { return "kube-lab-" + l.Name }

func (l *Lab) netnsPath() string { return "/run/netns/" + l.NetNS() }

// operator is the address that Terraform and tests have in the lab's network.
func (l *Lab) operator() netip.Prefix {
	return netip.PrefixFrom(l.Subnet.Addr().Next(), l.Subnet.Bits())
}

// makeNetwork makes the namespace and the bridge. It has an address but no route
// beyond the subnet, and nothing connects it to the computer's own network.
func (l *Lab) makeNetwork(ctx context.Context) error {
	if !exists(l.netnsPath()) {
		if err := run(ctx, "ip", "netns", "add", l.NetNS()); err != nil {
			return err
		}
	}
	if l.ip(ctx, "link", "show", "dev", bridge) != nil {
		if err := l.ip(ctx, "link", "add", "dev", bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		// Otherwise the bridge takes the lowest address of its ports, which changes when a machine
		// loses its power. The others would send to the old one until they detect that.
		{"link", "set", "dev", bridge, "address", macOf(l.operator().Addr())},
		{"address", "replace", l.operator().String(), "dev", bridge},
		{"link", "set", "dev", "lo", "up"},
		{"link", "set", "dev", bridge, "up"},
		// Without quickack every SSH connection waits twice 40 ms for a delayed
		// acknowledgement, half of the time of a short command.
		{
			"route", "replace", l.Subnet.String(), "dev", bridge, "proto", "kernel", "scope", "link",
			"src", l.operator().Addr().String(), "quickack", "1",
		},
	} {
		if err := l.ip(ctx, args...); err != nil {
			return err
		}
	}
	return l.makeNetwork6(ctx)
}

// makeNetwork6 gives the bridge its IPv6 address, without duplicate address detection, for which
// everyone would wait a second.
func (l *Lab) makeNetwork6(ctx context.Context) error {
	if !l.Subnet6.IsValid() {
		return nil
	}
	operator := netip.PrefixFrom(l.Subnet6.Addr().Next(), l.Subnet6.Bits()).String()
	if err := l.ip(ctx, "address", "replace", operator, "dev", bridge, "nodad"); err != nil {
		return err
	}
	return l.ip(ctx, "route", "replace", l.Subnet6.String(), "dev", bridge, "proto", "kernel", "metric", "256",
		"quickack", "1")
}

func (l *Lab) removeNetwork(ctx context.Context) error {
	if !exists(l.netnsPath()) {
		return nil
	}
	return run(ctx, "ip", "netns", "delete", l.NetNS())
}

// ip runs one ip command in the lab's namespace.
func (l *Lab) ip(ctx context.Context, args ...string) error {
	return run(ctx, "ip", append([]string{"-netns", l.NetNS()}, args...)...)
}

// Command is a command that will run in the lab's namespace. It sees the same
// files as everyone else.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + l.netnsPath(), "--", name}, args...)...)
}

// Enter moves the running program into the lab's namespace by starting it again
// there; it returns only when the program is there already. Call it first thing
// in TestMain, so that a plain `go test` reaches the machines.
func Enter(l *Lab) error {
	// This thread's, not the process's: /proc/self is the main thread, which may
	// be one that DialContext has sent into the lab for good.
	here, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	there, err := os.Stat(l.netnsPath())
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	if os.SameFile(here, there) {
		return l.mustBeInside()
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	reservation, err := l.handOver()
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	args := append([]string{nsenter, "--net=" + l.netnsPath(), "--", self}, os.Args[1:]...)
	err = syscall.Exec(nsenter, args, append(os.Environ(), reservation))
	return fmt.Errorf("enter lab %s: %w", l.Name, err)
}

// mustBeInside checks that no packet can leave the computer: a program that dials
// machines must see the lab's own interface.
func (l *Lab) mustBeInside() error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("enter lab %s: %w", l.Name, err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && l.Subnet.Contains(prefix.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("enter lab %s: this program has no address in %v", l.Name, l.Subnet)
}

// DialContext connects to a machine from anywhere on this computer. The address
// must be numeric.
func (l *Lab) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread changes its namespace and is never given back: it ends with
		// this goroutine. A numeric address is dialled on this thread.
		runtime.LockOSThread()
		conn, err := func() (net.Conn, error) {
			ns, err := os.Open(l.netnsPath())
			if err != nil {
				return nil, err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return nil, fmt.Errorf("enter network namespace: %w", err)
			}
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, address)
		}()
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// run runs a command whose output matters only when it fails.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		// Of a command that was killed because ctx has ended, exec says the signal only.
		return commandError(name+" "+strings.Join(args, " "), out, errors.Join(err, ctx.Err()))
	}
	return nil
}

func commandError(command string, output []byte, err error) error {
	if text := strings.TrimSpace(string(output)); text != "" {
		err = errors.Join(err, errors.New(text))
	}
	return fmt.Errorf("%s: %w", command, err)
}
