package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// PrivateKeyPath is the file of the key that every machine lets in, as root and
// as admin, who may sudo without a password.
func (l *Lab) PrivateKeyPath() string { return l.path("id_ed25519") }

// PrivateKey is that key in OpenSSH's format.
func (l *Lab) PrivateKey() (string, error) {
	data, err := os.ReadFile(l.PrivateKeyPath())
	return string(data), err
}

func (l *Lab) makeKey(ctx context.Context) error {
	if exists(l.PrivateKeyPath() + ".pub") { // ssh-keygen writes it last
		return nil
	}
	if err := os.Remove(l.PrivateKeyPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kube-lab "+l.Name, "-f", l.PrivateKeyPath())
}

// KnownHosts gives the machines' present host keys as lines of a known_hosts file.
func (l *Lab) KnownHosts() (string, error) {
	var text strings.Builder
	for _, m := range l.Machines() {
		key, err := m.HostKey()
		if errors.Is(err, fs.ErrNotExist) {
			continue // added, not yet made
		} else if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s %s\n", m.addresses(), key)
	}
	return text.String(), nil
}

// KnownHostsPath is a file with KnownHosts. It is brought up to date whenever a
// machine is booted.
func (l *Lab) KnownHostsPath() string { return l.path("known_hosts") }

// SSH is an ssh client as root on the machine; without args an interactive shell.
// It runs in the lab's namespace.
func (m *Machine) SSH(ctx context.Context, args ...string) *exec.Cmd {
	return m.ssh(ctx, nil, args)
}

// Run runs a shell script as root on the machine, by SSH, and gives its output,
// standard error included. Tests use it to observe and to break machines without the
// code under test.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	// The shell reads the whole script first: a command in it that reads its standard
	// input must not read the rest.
	cmd := m.ssh(ctx, []string{"-T", "-o", "BatchMode=yes"}, []string{`exec sh -c "$(cat)" </dev/null`})
	cmd.Stdin = strings.NewReader(script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), commandError("run on "+m.Name, out.Bytes(), err)
	}
	return out.String(), nil
}

// HangUp ends all SSH connections to the machine but its own, as a broken network or
// the end of sshd's process does: the commands in them continue.
func (m *Machine) HangUp(ctx context.Context) error {
	_, err := m.Run(ctx, `for pid in $(pgrep -f '^sshd: .*@'); do [ "$pid" = "$PPID" ] || kill -KILL "$pid"; done`)
	return err
}

func (m *Machine) ssh(ctx context.Context, options, args []string) *exec.Cmd {
	all := []string{
		"-F", "none", "-i", m.lab.PrivateKeyPath(),
		"-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
		"-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + m.lab.KnownHostsPath(),
		"-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2",
		"-o", "KexAlgorithms=curve25519-sha256", // the post-quantum default costs 0.1 s of CPU
	}
	all = append(append(append(all, options...), "root@"+m.Address.String()), args...)
	return m.lab.Command(ctx, "ssh", all...)
}

// writeKnownHosts is called by machines that boot at the same time.
func (l *Lab) writeKnownHosts(ctx context.Context) error {
	unlock, err := lockDir(ctx, l.path("machines"))
	if err != nil {
		return err
	}
	defer unlock()
	text, err := l.KnownHosts()
	if err != nil {
		return err
	}
	return writeFile(l.KnownHostsPath(), []byte(text), 0o644)
}
