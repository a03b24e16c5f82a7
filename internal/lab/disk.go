package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// A machine's disk is the upper layer of its overlay. What makes the machine this
// machine is written there before it is first booted, straight into the layer:
// directories in it must therefore have the mode and owner they have in the base.

// MachineID is the machine's id in /etc/machine-id; a rebuilt machine has another.
func (m *Machine) MachineID() (string, error) {
	data, err := os.ReadFile(m.path("disk/upper/etc/machine-id"))
	return strings.TrimSpace(string(data)), err
}

// HostKey is the public key of the machine's SSH server, as "ssh-ed25519 AAAA...".
func (m *Machine) HostKey() (string, error) {
	data, err := os.ReadFile(m.path("disk/upper/etc/ssh/ssh_host_ed25519_key.pub"))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return "", fmt.Errorf("host key of %s: malformed", m.Name)
	}
	return strings.Join(fields[:2], " "), nil
}

// makeDisk makes the machine's disk when it has none. It is made elsewhere and
// renamed, so that a disk is whole or absent.
func (m *Machine) makeDisk(ctx context.Context, onImage bool) error {
	if err := os.MkdirAll(m.path("root"), 0o755); err != nil {
		return err
	}
	if !exists(m.path("disk")) {
		if err := m.makeDirectory(ctx); err != nil {
			return err
		}
	}
	if onImage && !m.onImage() {
		return m.makeImage(ctx)
	}
	return nil
}

func (m *Machine) makeDirectory(ctx context.Context) error {
	part := m.path("disk.part")
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part+"/work", 0o755); err != nil {
		return err
	}
	if err := m.writeIdentity(ctx, part+"/upper"); err != nil {
		return err
	}
	return os.Rename(part, m.path("disk"))
}

func (m *Machine) writeIdentity(ctx context.Context, root string) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	authorized, err := os.ReadFile(m.lab.PrivateKeyPath() + ".pub")
	if err != nil {
		return err
	}
	const adminID = 1000 // the first user that base.sh adds
	for _, dir := range []struct {
		path  string
		mode  os.FileMode
		owner int
	}{
		{"", 0o755, 0},
		{"/etc", 0o755, 0},
		{"/etc/ssh", 0o755, 0},
		{"/home", 0o755, 0},
		{"/root", 0o700, 0},
		{"/root/.ssh", 0o700, 0},
		{"/home/admin", 0o755, adminID},
		{"/home/admin/.ssh", 0o700, adminID},
	} {
		if err := makeOwned(root+dir.path, dir.mode, dir.owner); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"/etc/machine-id":                  hex.EncodeToString(id) + "\n",
		"/etc/hostname":                    m.Name + "\n",
		"/etc/hosts":                       m.lab.hosts(),
		"/root/.ssh/authorized_keys":       string(authorized),
		"/home/admin/.ssh/authorized_keys": string(authorized), // sshd accepts root as the owner
	} {
		if err := os.WriteFile(root+path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", m.Name, "-f",
		root+"/etc/ssh/ssh_host_ed25519_key")
}

// makeOwned makes a directory with exactly this mode, whatever the umask.
func makeOwned(path string, mode os.FileMode, owner int) error {
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return os.Chown(path, owner, owner)
}

// hosts is /etc/hosts of every machine.
func (l *Lab) hosts() string {
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")
	for _, m := range l.Machines() {
		for address := range strings.SplitSeq(m.addresses(), ",") {
			fmt.Fprintf(&text, "%s %s\n", address, m.Name)
		}
	}
	return text.String()
}

// updateHosts updates /etc/hosts of the existing machines. A mounted disk is changed
// from within the machine only. An image gets the file at each boot.
func (l *Lab) updateHosts(ctx context.Context) error {
	text := l.hosts()
	for _, m := range l.Machines() {
		if !exists(m.path("disk")) {
			continue
		}
		running, err := m.Running()
		if err != nil {
			return err
		}
		if !running || m.onImage() {
			err = os.WriteFile(m.path("disk/upper/etc/hosts"), []byte(text), 0o644)
		}
		if running && err == nil {
			_, err = m.Run(ctx, "cat > /etc/hosts <<'HOSTS'\n"+text+"HOSTS\n")
		}
		if err != nil {
			return fmt.Errorf("write hosts file of %s: %w", m.Name, err)
		}
	}
	return nil
}
