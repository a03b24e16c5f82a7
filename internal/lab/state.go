package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/kubequorum/terraform-provider-kube/internal/filelock"
)

// stateRoot holds one directory per lab. It is not in a temporary directory:
// machines have disks there, and outlive the process that made them.
const stateRoot = "/var/lib/kube-lab"

// state is the content of lab.json. Everything else about a lab is read from the
// kernel: whether a machine runs, where its cable is.
type state struct {
	Subnet   netip.Prefix   `json:"subnet"`
	Subnet6  netip.Prefix   `json:"subnet6,omitzero"`
	IPv6Only bool           `json:"ipv6_only,omitempty"`
	Base     string         `json:"base"` // the tree below the machines' disks
	Machines []stateMachine `json:"machines"`

	DiskImages bool `json:"disk_images,omitempty"`
}

type stateMachine struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
}

// freeAddress is the first of .11, .12, ... that no machine has.
func (s *state) freeAddress() (netip.Addr, error) {
	taken := map[netip.Addr]bool{}
	for _, m := range s.Machines {
		taken[m.Address] = true
	}
	addr := s.Subnet.Masked().Addr()
	for range firstMachine {
		addr = addr.Next()
	}
	for ; s.Subnet.Contains(addr.Next()); addr = addr.Next() { // the last one is the broadcast address
		if !taken[addr] {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no free address left in %s", s.Subnet)
}

// address6 is the IPv6 address of the machine with an IPv4 address: ::11 of the one with .11. It
// is zero if the lab has no IPv6.
func (s *state) address6(address netip.Addr) netip.Addr {
	if !s.Subnet6.IsValid() {
		return netip.Addr{}
	}
	four, six := address.As4(), s.Subnet6.Masked().Addr().As16()
	last := four[3]
	six[14], six[15] = last/100, last/10%10<<4|last%10 // the decimal digits, read as hexadecimal ones
	return netip.AddrFrom16(six)
}

func readState(name string) (state, error) {
	var s state
	data, err := os.ReadFile(filepath.Join(stateRoot, name, "lab.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read state of lab %s: %w", name, err)
	}
	return s, nil
}

func (l *Lab) saveState() error {
	data, err := json.MarshalIndent(l.state, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(l.path("lab.json"), append(data, '\n'), 0o644)
}

// writeFile replaces path in one step.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	part := path + ".part"
	if err := os.WriteFile(part, data, mode); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// lockDir takes the exclusive lock of a directory, which it makes if it does not
// exist. The lock ends with the process. Its holder may remove the directory; a
// process that waited then starts over with a new one.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := openLocked(ctx, dir, nil)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// openLocked is lockDir. The lock ends when the result is closed. It calls waiting,
// where it is not nil, before each further attempt.
func openLocked(ctx context.Context, dir string, waiting func()) (*os.File, error) {
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if err := filelock.Lock(ctx, f, waiting); err != nil {
			f.Close()
			return nil, err
		}
		if sameFile(f, dir) {
			return f, nil
		}
		f.Close()
	}
}

func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
