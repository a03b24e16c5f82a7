// Package lab makes machines on one computer, each with systemd, sshd, a disk and a
// network cable. Tests and the demonstration do to them what happens to real ones:
// a crash, a power cut, a cut network, replaced hardware.
//
// A machine is a systemd-nspawn container with a writable overlay on a shared
// base tree. The machines of a lab hang on a bridge in a network namespace that
// has no route to anywhere else, so no packet can leave the computer. Whoever
// talks to the machines must be in that namespace too: see Enter and
// Lab.Command.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"
)

// DefaultSubnet is the network of a lab that does not name one.
var DefaultSubnet = netip.MustParsePrefix("10.90.0.0/24")

// ErrNoLab reports that there is no lab of that name.
var ErrNoLab = errors.New("no such lab")

// firstMachine is the last part of the first machine's address.
const firstMachine = 11

var (
	labName     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)
	machineName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`) // also a network interface's name
)

// Config describes a lab.
type Config struct {
	Name     string       // lower case, digits, dashes
	Subnet   netip.Prefix // IPv4; DefaultSubnet when zero. Labs do not see each other
	Subnet6  netip.Prefix // IPv6, unique local; the machines have no such address when zero
	Machines []string     // addresses .11, .12, ... and ::11, ::12, ... in this order
	Log      io.Writer    // gets progress; standard error when nil

	// IPv6Only leaves the machines without an IPv4 address: Machine.Address is the IPv6 one.
	IPv6Only bool

	// DiskImages gives each machine a file system of its own, as CutPower needs it. Flushes
	// do not reach this computer's disk, so that such a lab is not for measurements.
	DiskImages bool
}

// check reports why this computer cannot run the lab.
func (c Config) check() error {
	if missing := Missing(); missing != "" {
		return errors.New(missing)
	}
	return c.validate()
}

func (c Config) validate() error {
	if !labName.MatchString(c.Name) {
		return fmt.Errorf("lab name %q: want at most 31 lower case letters, digits and dashes", c.Name)
	}
	if c.Subnet.IsValid() && (!c.Subnet.Addr().Is4() || c.Subnet.Bits() > 27) {
		return fmt.Errorf("subnet %s: want IPv4 with room for machines from .%d on", c.Subnet, firstMachine)
	}
	if c.Subnet6.IsValid() && (!c.Subnet6.Addr().IsPrivate() || !c.Subnet6.Addr().Is6() || c.Subnet6.Bits() > 112) {
		return fmt.Errorf("subnet %s: want unique local IPv6 with 16 bits for the machines", c.Subnet6)
	}
	if c.IPv6Only && !c.Subnet6.IsValid() {
		return errors.New("machines without IPv4 need an IPv6 subnet")
	}
	for _, name := range c.Machines {
		if err := validateMachine(name); err != nil {
			return err
		}
	}
	return nil
}

func validateMachine(name string) error {
	if !machineName.MatchString(name) || name == bridge {
		return fmt.Errorf("machine name %q: want a lower case letter, then at most 14 letters, digits, dashes", name)
	}
	return nil
}

// Lab is a set of machines on one network. Its methods may run at the same time,
// except Add and Destroy.
type Lab struct {
	Name    string
	Subnet  netip.Prefix
	Subnet6 netip.Prefix // zero if the lab has no IPv6

	state       state
	reservation *os.File // of New: its lock keeps the lab for this process
}

// Up makes the lab of cfg, or completes it: machines that are missing are added,
// machines that are off are switched on. It returns when all of them answer by
// SSH.
func Up(ctx context.Context, cfg Config) (*Lab, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = os.Stderr
	}
	l := &Lab{Name: cfg.Name}
	unlock, err := lockDir(ctx, l.path())
	if err != nil {
		return nil, fmt.Errorf("lock lab %s: %w", cfg.Name, err)
	}
	defer unlock()
	if err := l.loadState(ctx, cfg); err != nil {
		return nil, err
	}
	if err := l.makeKey(ctx); err != nil {
		return nil, err
	}
	if err := raiseLimits(); err != nil {
		fmt.Fprintf(cfg.Log, "%v: some machines may not boot if there are many\n", err)
	}
	if err := l.makeNetwork(ctx); err != nil {
		return nil, err
	}
	return l, l.add(ctx, cfg.Machines)
}

// loadState reads the lab's state, or makes the first one. A lab keeps the base
// tree that it began with.
func (l *Lab) loadState(ctx context.Context, cfg Config) error {
	subnet := cfg.Subnet
	if !subnet.IsValid() {
		subnet = DefaultSubnet
	}
	s, err := readState(cfg.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		base, err := baseTree(ctx, cfg.Log)
		if err != nil {
			return err
		}
		s = state{
			Subnet: subnet.Masked(), Subnet6: cfg.Subnet6.Masked(), IPv6Only: cfg.IPv6Only, Base: base,
			DiskImages: cfg.DiskImages,
		}
	case err != nil:
		return err
	case cfg.Subnet.IsValid() && cfg.Subnet.Masked() != s.Subnet:
		return fmt.Errorf("lab %s exists with subnet %s, not %s: take it down first", cfg.Name, s.Subnet, cfg.Subnet)
	case cfg.Subnet6.IsValid() && cfg.Subnet6.Masked() != s.Subnet6, cfg.IPv6Only && !s.IPv6Only:
		return fmt.Errorf("lab %s exists with another IPv6 network: take it down first", cfg.Name)
	}
	l.state, l.Subnet, l.Subnet6 = s, s.Subnet, s.Subnet6
	return l.saveState()
}

// Open returns an existing lab in whatever state its machines are.
func Open(name string) (*Lab, error) {
	s, err := readState(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoLab, name)
	} else if err != nil {
		return nil, err
	}
	return &Lab{Name: name, Subnet: s.Subnet, Subnet6: s.Subnet6, state: s}, nil
}

// Names lists the labs of this computer.
func Names() ([]string, error) {
	entries, err := os.ReadDir(stateRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Add gives the lab more machines, at the next free addresses, and boots them.
// Machines that exist already are booted when they are off.
func (l *Lab) Add(ctx context.Context, names ...string) error {
	unlock, err := lockDir(ctx, l.path())
	if err != nil {
		return fmt.Errorf("lock lab %s: %w", l.Name, err)
	}
	defer unlock()
	if l.state, err = readState(l.Name); err != nil {
		return err
	}
	return l.add(ctx, names)
}

func (l *Lab) add(ctx context.Context, names []string) error {
	grown := false
	for _, name := range names {
		if err := validateMachine(name); err != nil {
			return err
		}
		if l.Machine(name) != nil {
			continue
		}
		address, err := l.state.freeAddress()
		if err != nil {
			return fmt.Errorf("add machine %s: %w", name, err)
		}
		l.state.Machines = append(l.state.Machines, stateMachine{Name: name, Address: address})
		grown = true
	}
	if err := l.saveState(); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, m := range l.Machines() {
		if slices.Contains(names, m.Name) {
			group.Go(func() error { return m.Boot(groupCtx) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if grown {
		return l.updateHosts(ctx)
	}
	return nil
}

// Machines lists the machines in the order in which they were added.
func (l *Lab) Machines() []*Machine {
	machines := make([]*Machine, 0, len(l.state.Machines))
	for _, m := range l.state.Machines {
		machine := &Machine{
			Name: m.Name, Address: m.Address, Address6: l.state.address6(m.Address), lab: l, number: m.Address,
		}
		if l.state.IPv6Only {
			machine.Address = machine.Address6
		}
		machines = append(machines, machine)
	}
	return machines
}

// Machine gives one machine, or nil.
func (l *Lab) Machine(name string) *Machine {
	for _, m := range l.Machines() {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Destroy removes the lab: processes, network, disks, keys. An incomplete lab, one
// that does not exist, and one that another process destroys are no errors.
func (l *Lab) Destroy(ctx context.Context) error {
	return Destroy(ctx, l.Name)
}

// Destroy removes the lab of that name. It finds what exists by the kernel, not by
// the lab's state, so that it also cleans up after a crash.
func Destroy(ctx context.Context, name string) error {
	if !labName.MatchString(name) {
		return fmt.Errorf("%w: %q", ErrNoLab, name)
	}
	l := &Lab{Name: name}
	unlock, err := lockDir(ctx, l.path())
	if err != nil {
		return fmt.Errorf("lock lab %s: %w", name, err)
	}
	defer unlock()
	l.resumeDisks()
	if err := killCgroup(ctx, l.cgroup()); err != nil {
		return fmt.Errorf("destroy lab %s: %w", name, err)
	}
	if err := waitForUnmount(ctx, l.path()); err != nil {
		return fmt.Errorf("destroy lab %s: %w", name, err)
	}
	if err := l.removeNetwork(ctx); err != nil {
		return fmt.Errorf("destroy lab %s: %w", name, err)
	}
	if err := os.RemoveAll(l.path()); err != nil {
		return fmt.Errorf("destroy lab %s: %w", name, err)
	}
	os.Remove(stateRoot) // only when this was the last lab; else it is not empty
	return nil
}

func (l *Lab) path(elem ...string) string {
	return filepath.Join(append([]string{stateRoot, l.Name}, elem...)...)
}
