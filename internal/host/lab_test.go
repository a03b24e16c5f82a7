package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// machines is the lab of this package's tests; missing is the reason if there is none.
var machines struct {
	lab     *lab.Lab
	missing string
}

// subnet belongs to this lab.
var subnet = netip.MustParsePrefix("10.92.0.0/24")

// TestMain moves the tests into a lab's network if this computer can run one. The tests against
// the in-process server always run.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if machines.missing = whyNoLab(); machines.missing != "" {
		return m.Run()
	}
	config := lab.Config{Name: "hostlab", Subnet: subnet, Machines: []string{"m1", "m2"}}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

func whyNoLab() string {
	if testing.Short() {
		return "-short leaves the lab out"
	}
	return lab.Missing()
}

// labConfig returns the configuration to reach the lab's machines.
func labConfig(t *testing.T) Config {
	t.Helper()
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	key, err := machines.lab.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Credentials: Credentials{PrivateKey: key}, KnownHosts: known}
}

func labHost(t *testing.T, config Config, name string) *Host {
	t.Helper()
	pool, err := NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool.Host(Target{Address: machines.lab.Machine(name).Address.String()})
}

// TestLabTimings prints the time of each operation on a real machine.
func TestLabTimings(t *testing.T) {
	h := labHost(t, labConfig(t), "m1")
	files, paths := make([]File, 30), make([]string, 30)
	for i := range files {
		paths[i] = fmt.Sprintf("/etc/kube-timing/f%d", i)
		files[i] = File{Path: paths[i], Content: make([]byte, 2000), Mode: 0o600}
	}
	change := Change{Dirs: []Dir{{Path: "/etc/kube-timing", Mode: 0o700}}, Files: files, Script: "echo $CHANGED | wc -w"}
	query := Query{
		Files: paths, Dirs: []string{"/etc"}, Units: []string{
			"ssh.service", "etcd.service", "kube-apiserver.service",
			"x.service",
		},
		Ports: []int{22}, Disks: []string{"/var/lib/etcd"}, Commands: []string{"haproxy"},
	}
	measure := func(name string, operation func() error) {
		started := time.Now()
		if err := operation(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%-28s %v", name, time.Since(started).Round(time.Millisecond))
	}
	run := func() error { _, err := h.Run(t.Context(), Command{Script: "true"}); return err }
	apply := func() error { _, err := h.Apply(t.Context(), change); return err }
	observe := func() error {
		facts, err := h.Observe(t.Context(), query)
		if err == nil && len(facts.Files) != 30 {
			err = fmt.Errorf("%d files", len(facts.Files))
		}
		return err
	}
	measure("connect and run", run)
	measure("run", run)
	measure("apply 30 new files", apply)
	measure("apply 30 unchanged files", apply)
	measure("observe 30 files, 4 units", observe)
	measure("observe nothing", func() error { _, err := h.Observe(t.Context(), Query{}); return err })
}

func TestLabObserve(t *testing.T) {
	h := labHost(t, labConfig(t), "m1")
	facts, err := h.Observe(t.Context(), Query{
		Units: []string{"ssh.service", "no-such.service", "multi-user.target"}, Ports: []int{22, 2379},
	})
	must(t, err)
	id, err := machines.lab.Machine("m1").MachineID()
	must(t, err)
	if facts.MachineID != id || facts.Hostname != "m1" || facts.OS != "debian" || facts.Systemd == "" {
		t.Errorf("facts %+v", facts)
	}
	ssh := facts.Units["ssh.service"]
	if ssh.Load != "loaded" || ssh.Active != "active" || ssh.Sub != "running" || ssh.MainPID == 0 || ssh.NeedReload ||
		ssh.Result != "success" {
		t.Errorf("ssh.service %+v", ssh)
	}
	if age := time.Since(ssh.Since); age < 0 || age > time.Hour {
		t.Errorf("ssh.service active since %v", ssh.Since)
	}
	if none := facts.Units["no-such.service"]; none.Load != "not-found" || none.Active != "inactive" ||
		!none.Since.IsZero() {
		t.Errorf("no-such.service %+v", none)
	}
	if l := facts.Listeners[22]; l.Process != "sshd" || !slices.Contains(l.Addresses, "0.0.0.0") ||
		len(facts.Listeners) != 1 {
		t.Errorf("listeners %+v", facts.Listeners)
	}
	log, err := h.UnitLog(t.Context(), "ssh.service", 3)
	if err != nil || log == "" || strings.Count(log, "\n") > 2 {
		t.Errorf("journal %q, %v", log, err)
	}
	if log, err := h.UnitLog(t.Context(), "no-such.service", 3); err != nil || log != "" {
		t.Errorf("journal of a unit that is not there: %q, %v", log, err)
	}
}

// TestLabUnits changes a unit: systemd has loaded the new one when Script runs, even if an
// earlier change was interrupted before the reload.
func TestLabUnits(t *testing.T) {
	h := labHost(t, labConfig(t), "m1")
	const path = "/etc/systemd/system/probe.service"
	unit := func(argument string) Change { // of type exec: another one has started before its program runs
		return Change{
			Users: []User{{Name: "probe", Groups: []string{"probe-extra", "daemon"}}},
			Dirs:  []Dir{{Path: "/var/lib/probe", Mode: 0o700, Owner: "probe", Group: "probe"}},
			Files: []File{{Path: path, Mode: 0o644, Content: []byte("[Service]\nType=exec\nUser=probe\nExecStart=/bin/sleep " +
				argument + "\n")}},
			Script: "case $CHANGED in *probe.service*) systemctl restart probe.service ;; esac\ntr '\\0' ' ' " +
				"</proc/$(systemctl show --property=MainPID --value probe.service)/cmdline; id -nG probe",
		}
	}
	applied := apply(t, h, unit("1001"))
	wantChanged(t, applied, "/var/lib/probe", path)
	if applied.Output != "/bin/sleep 1001 probe daemon probe-extra\n" &&
		applied.Output != "/bin/sleep 1001 probe probe-extra daemon\n" {
		t.Errorf("output %q", applied.Output)
	}
	if applied := apply(t, h, unit("1002")); !strings.HasPrefix(applied.Output, "/bin/sleep 1002") {
		t.Errorf("output %q", applied.Output)
	}
	wantChanged(t, apply(t, h, unit("1002")))

	// As after a manual edit without daemon-reload.
	edited := unit("1003")
	if _, err := h.Run(t.Context(),
		Command{Script: "cat >" + path, Stdin: strings.NewReader(string(edited.Files[0].Content))}); err != nil {
		t.Fatal(err)
	}
	facts, err := h.Observe(t.Context(), Query{Units: []string{"probe.service"}})
	must(t, err)
	if !facts.Units["probe.service"].NeedReload {
		t.Fatal("systemd does not notice the edit: nothing is tested")
	}
	wantChanged(t, apply(t, h, edited))
	if facts, err = h.Observe(t.Context(), Query{Units: []string{"probe.service"}}); err != nil ||
		facts.Units["probe.service"].NeedReload {
		t.Errorf("systemd was not reloaded: %+v, %v", facts.Units, err)
	}
	wantChanged(t, apply(t, h, Change{Remove: []string{path}, Script: "systemctl stop probe.service"}), path)
}

// TestLabSudo runs as an ordinary user with and without sudo.
func TestLabSudo(t *testing.T) {
	config := labConfig(t)
	root := labHost(t, config, "m1")
	config.User = "admin"
	admin := labHost(t, config, "m1")
	out, err := admin.Run(t.Context(), Command{Script: "id -un; cat", Stdin: strings.NewReader("it's input\n")})
	if err != nil || out != "root\nit's input\n" {
		t.Fatalf("%q, %v", out, err)
	}
	wantChanged(t, apply(t, admin, Change{
		Files:  []File{{Path: "/etc/kube-sudo", Content: []byte("x"), Mode: 0o600}},
		Remove: []string{"/etc/none"},
	}), "/etc/kube-sudo")

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := admin.Run(ctx, Command{Script: "sleep 4711"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if out, err := root.Run(t.Context(), Command{Script: "grep -lx sleep /proc/[0-9]*/comm || true"}); err != nil ||
		out != "" {
		t.Errorf("after the cancelled command: %q, %v", out, err)
	}

	const prepare = "useradd --create-home --shell /bin/sh plain 2>/dev/null || true; mkdir -p ~plain/.ssh; cp " +
		"~admin/.ssh/authorized_keys ~plain/.ssh/; chown -R plain ~plain/.ssh"
	if _, err := root.Run(t.Context(), Command{Script: prepare}); err != nil {
		t.Fatal(err)
	}
	config.User = "plain"
	_, err = labHost(t, config, "m1").Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrNotRoot) || errors.Is(err, ErrUnreachable) {
		t.Fatalf("error %v, want ErrNotRoot", err)
	}
	mustContain(t, err, "sudo: a password is required")
}

// TestLabCancel cancels a command of root on a real sshd.
func TestLabCancel(t *testing.T) {
	h := labHost(t, labConfig(t), "m1")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	started := time.Now()
	if _, err := h.Run(ctx, Command{Script: "setsid sleep 4712 & sleep 4713"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	t.Logf("ended %v after it was cancelled", time.Since(started)-500*time.Millisecond)
	if out, err := h.Run(t.Context(), Command{Script: "grep -lx sleep /proc/[0-9]*/comm || true"}); err != nil ||
		out != "" {
		t.Errorf("still running: %q, %v", out, err)
	}
}

// TestLabStaleCommands loses the connection during a command: the command continues, and ends before
// the first change through the next connection.
func TestLabStaleCommands(t *testing.T) {
	const (
		// A process that has ended may wait for process 1 to take note of it.
		running = `for name in $(grep -lxs sleep /proc/[0-9]*/comm); do
  grep -qs '^State:[[:space:]]*[ZX]' "${name%comm}status" || echo "$name"
done`
		// sshd ends a moment after its connection; its child is then one of process 1.
		orphaned = `for file in $(grep -lzxE 'KUBE_COMMAND=[0-9a-f]{16}' /proc/[0-9]*/environ /proc/[0-9]*/cmdline); do
  grep -xs 'PPid:[[:space:]]*1' "${file%/*}/status" || true
done`
	)
	config := labConfig(t)
	m := machines.lab.Machine("m1")
	run := func(script string) string {
		t.Helper()
		out, err := m.Run(t.Context(), script)
		must(t, err)
		return out
	}
	for _, user := range []string{"root", "admin"} {
		config.User = user
		failed := make(chan error, 1)
		go func() {
			_, err := labHost(t, config, "m1").Run(t.Context(), Command{Script: "sleep 4714 & sleep 4715"})
			failed <- err
		}()
		eventually(t, "the command runs", func() bool { return strings.Count(run(running), "\n") == 2 })
		must(t, m.HangUp(t.Context()))
		if err := <-failed; !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: the lost command: %v, want ErrUnreachable", user, err)
		}
		eventually(t, "the lost command has no parent", func() bool { return run(orphaned) != "" })
		if run(running) == "" {
			t.Fatalf("%s: the command ended with its connection: nothing is tested", user)
		}
		h := labHost(t, config, "m1")
		if _, err := h.Observe(t.Context(), Query{}); err != nil || run(running) == "" {
			t.Errorf("%s: a look ended the lost command (%v)", user, err)
		}
		if out, err := h.Run(t.Context(), Command{Script: running}); err != nil || out != "" {
			t.Errorf("%s: the lost command still runs: %q, %v", user, out, err)
		}
	}
}

// TestLabBastion reaches m2 through m1 with one connection to each.
func TestLabBastion(t *testing.T) {
	config := labConfig(t)
	config.Bastion = &Bastion{
		Address:     machines.lab.Machine("m1").Address.String(),
		Credentials: Credentials{User: "admin"},
	}
	h := labHost(t, config, "m2")
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := h.Run(t.Context(), Command{Script: "sleep 0.1"}); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	conn, err := h.Dial(t.Context(), "tcp", "127.0.0.1:22")
	must(t, err)
	defer func() { _ = conn.Close() }()
	greeting := make([]byte, 4)
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "SSH-" {
		t.Errorf("%q, %v", greeting, err)
	}
}

// TestLabCable disconnects and reconnects the network cable; TestLabReboot kills
// and replaces the machine.
func TestLabCable(t *testing.T) {
	config := labConfig(t)
	config.Keepalive = 200 * time.Millisecond
	config.ConnectTimeout = 3 * time.Second
	h := labHost(t, config, "m2")
	m := machines.lab.Machine("m2")
	failed := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), Command{Script: "touch /run/began; sleep 60"})
		failed <- err
	}()
	eventually(t, "the command runs", func() bool {
		_, err := h.Run(t.Context(), Command{Script: "test -e /run/began"})
		return err == nil
	})
	must(t, m.Cut(t.Context()))
	started := time.Now()
	if err := <-failed; !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want ErrUnreachable", err)
	}
	t.Logf("noticed after %v", time.Since(started).Round(time.Millisecond))
	if _, err := h.Run(t.Context(), Command{Script: "true"}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want ErrUnreachable", err)
	}
	must(t, m.Heal(t.Context()))
	eventually(t, "the machine answers again", func() bool {
		_, err := h.Run(t.Context(), Command{Script: "true"})
		return err == nil
	})
}

func TestLabReboot(t *testing.T) {
	h := labHost(t, labConfig(t), "m2")
	m := machines.lab.Machine("m2")
	first, err := h.Observe(t.Context(), Query{})
	must(t, err)
	must(t, m.PowerOff(t.Context()))
	must(t, m.Boot(t.Context()))
	second, err := h.Observe(t.Context(), Query{})
	must(t, err)
	if first.MachineID != second.MachineID {
		t.Errorf("machine id %s, then %s", first.MachineID, second.MachineID)
	}

	must(t, m.Rebuild(t.Context()))
	_, err = h.Observe(t.Context(), Query{})
	var changed *HostKeyError
	if !errors.As(err, &changed) || len(changed.Known) == 0 {
		t.Fatalf("a rebuilt machine: %v, want a HostKeyError", err)
	}
	config := labConfig(t) // known_hosts is up to date again
	third, err := labHost(t, config, "m2").Observe(t.Context(), Query{})
	if err != nil || third.MachineID == first.MachineID {
		t.Errorf("rebuilt: %s, %v", third.MachineID, err)
	}
}
