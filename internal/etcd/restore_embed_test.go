package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Run runs a script of a restore on this computer, with the machine's data directory.
func (m *testMachine) Run(ctx context.Context, c host.Command) (string, error) {
	if _, err := host.LeasesOn(ctx, m.address); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.reach(), ctx.Err()); err != nil {
		return "", err
	}
	survivor := c.Vars["kind"] == "member"
	if survivor {
		m.stop()
	}
	out, err := m.shell(c.Script, c.Vars, c.Stdin)
	if survivor && err != nil {
		err = errors.Join(err, m.start())
	}
	return out, err
}

// shell runs a script without systemd.
func (m *testMachine) shell(script host.Script, vars map[string]string, stdin io.Reader) (string, error) {
	vars = maps.Clone(vars)
	vars["data"] = m.at(vars["data"])
	if vars["file"] != "" {
		vars["file"] = m.at(vars["file"])
	}
	if vars["snapshot"] != "" {
		vars["snapshot"] = m.at(vars["snapshot"])
	}
	vars["tools"] = filepath.Join(components(), "etcd-v"+newRelease)
	const stubs host.Script = "systemctl() { [ $1 != show ] || echo loaded; }\n"
	command := exec.Command("sh", "-euc", string(host.Assignments(vars)+stubs+script))
	command.Stdin = stdin
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// place does what restore_place.sh does.
func (m *testMachine) place(a machine.Action) error {
	from := m.at(layout.ArchiveRoot(a.DataDir)) + "/restoring"
	if err := os.MkdirAll(m.at(a.DataDir), 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(m.at(a.DataDir) + "/member"); err != nil {
		if err := os.Rename(from+"/member", m.at(a.DataDir)+"/member"); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(from+".former"), os.RemoveAll(from))
}

var errDied = errors.New("this process has ended")

// death ends a process at its n-th change of a machine: an odd one before it, an even one
// after it.
type death struct {
	mu    sync.Mutex
	n     int
	count int
	at    string // the change; "" if it was not reached
}

func (d *death) step(what string, change func() error) error {
	d.mu.Lock()
	if d.at != "" {
		d.mu.Unlock()
		return errDied
	}
	d.count++
	before, after := 2*d.count-1 == d.n, 2*d.count == d.n
	if before || after {
		d.at = what
	}
	d.mu.Unlock()
	if before {
		return errDied
	}
	err := change()
	if after {
		return errDied
	}
	return err
}

func (d *death) dead() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != "" {
		return errDied
	}
	return nil
}

// mortal is a machine as a process sees it that ends.
type mortal struct {
	*testMachine
	death *death
}

func (m mortal) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	if err := m.death.dead(); err != nil {
		return host.Facts{}, err
	}
	return m.testMachine.Observe(ctx, q)
}

func (m mortal) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := m.death.dead(); err != nil {
		return nil, err
	}
	return m.testMachine.Dial(ctx, network, addr)
}

func (m mortal) Change(ctx context.Context, c host.Change, a machine.Action) (out host.Applied, err error) {
	err = m.death.step(fmt.Sprintf("change on %s (%d, %d files)", m.address, a.Verb, len(c.Files)), func() (err error) {
		out, err = m.testMachine.Change(ctx, c, a)
		return err
	})
	return out, err
}

func (m mortal) Install(
	ctx context.Context, src host.Source, artifacts []host.Artifact,
) (out []host.Artifact, err error) {
	err = m.death.step("install on "+m.address, func() (err error) {
		out, err = m.testMachine.Install(ctx, src, artifacts)
		return err
	})
	return out, err
}

func (m mortal) Run(ctx context.Context, c host.Command) (out string, err error) {
	err = m.death.step("command on "+m.address, func() (err error) {
		out, err = m.testMachine.Run(ctx, c)
		return err
	})
	return out, err
}
