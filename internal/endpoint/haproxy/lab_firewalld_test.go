package haproxy

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// rebuiltAfter gives the machines new disks when the test has ended.
func (f *fixture) rebuiltAfter() {
	f.Helper()
	f.Cleanup(func() {
		for _, m := range machines.lab.Machines() {
			if err := m.Rebuild(context.WithoutCancel(f.ctx)); err != nil {
				f.Errorf("rebuild %s: %v", m.Name, err)
			}
		}
	})
}

var commandsOfFirewalld = regexp.MustCompile(`(?m)^ *([abc]) .*: firewalld does not let in .*: run (firewall-cmd .*)$`)

// TestFirewalldOnMachines: with Debian's firewalld as it is installed, the endpoint is refused before anything
// is changed; after the commands of the refusal, clients reach it, and its hosts agree on who has the address.
func TestFirewalldOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.rebuiltAfter()
	f.spec.InstallPackages = true
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		_, err := machines.lab.Machine(name).Run(f.ctx, "DEBIAN_FRONTEND=noninteractive apt-get install -y -q firewalld "+
			">/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }\n"+
			"until firewall-cmd --state >/dev/null 2>&1; do sleep 0.2; done")
		return err
	}))
	const start = `systemd-run --quiet --collect --unit=listener python3 -m http.server 6443
until ss -ltn | grep -q :6443; do sleep 0.1; done`
	const stop = "systemctl stop listener"
	f.shell("a", start) // Python comes with firewalld
	dialer := net.Dialer{Timeout: 2 * time.Second}
	dial := func(address string) error {
		conn, err := dialer.DialContext(f.ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if dial(f.replicaAddress("a")) == nil {
		t.Fatal("firewalld lets in everything: the test shows nothing")
	}
	f.shell("a", stop)
	_, err := Create(f.ctx, f.spec)
	var refusal *problem.Problem
	if !errors.As(err, &refusal) || refusal.Unchanged != problem.Nothing {
		t.Fatalf("created in spite of firewalld: %v", err)
	}
	t.Log(refusal.Detail)
	f.assertClean()
	commands := commandsOfFirewalld.FindAllStringSubmatch(refusal.Detail, -1)
	if len(commands) != 3 || !strings.Contains(commands[0][2], "--add-port=6443/tcp ") ||
		!strings.Contains(commands[0][2], "--add-protocol=vrrp ") {
		t.Fatalf("the commands are %q in\n%s", commands, refusal.Detail)
	}
	for _, command := range commands {
		f.shell(command[1], command[2])
	}
	f.shell("a", start)
	if err := dial(f.replicaAddress("a")); err != nil {
		t.Errorf("after the commands: %v", err)
	}
	f.shell("a", stop)
	f.timed("create behind firewalld", func() error {
		_, err := Create(f.ctx, f.spec)
		return err
	})
	if err := dial(f.spec.Address + ":6443"); err != nil {
		t.Errorf("the endpoint is not reached: %v", err)
	}
	holder := f.read().holder
	f.shell(holder, "systemctl stop "+keepalivedUnit)
	f.eventually("another holder", 5*time.Second, func(o observed) bool { return o.holder != "" && o.holder != holder })
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
}
