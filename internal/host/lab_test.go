package host

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// machines is the lab of this package's tests; missing says why there is none.
var machines struct {
	lab     *lab.Lab
	missing string
}

// TestMain moves the tests into a lab's network where this computer can run one.
// The tests against the in-process server run all the same.
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
	l, err := lab.Up(ctx, lab.Config{Name: "hostlab", Subnet: netip.MustParsePrefix("10.92.0.0/24"), Machines: []string{"m1", "m2"}}, os.Stderr)
	if err == nil {
		err = lab.Enter(l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "host: make lab machines:", err)
		return 1
	}
	machines.lab = l
	code := m.Run()
	if err := l.Destroy(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "host: throw lab machines away:", err)
		return 1
	}
	return code
}

func whyNoLab() string {
	switch {
	case testing.Short():
		return "-short leaves the lab out"
	case os.Geteuid() != 0:
		return "lab machines need root"
	}
	return lab.Missing()
}

// labConfig is how the lab's machines are reached.
func labConfig(t *testing.T) Config {
	t.Helper()
	if machines.lab == nil {
		t.Skip("no lab: " + machines.missing)
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

// TestLabTimings prints what each operation costs against a real machine.
func TestLabTimings(t *testing.T) {
	h := labHost(t, labConfig(t), "m1")
	files := make([]File, 30)
	for i := range files {
		files[i] = File{Path: fmt.Sprintf("/etc/kube-timing/f%d", i), Content: make([]byte, 2000), Mode: 0o600}
	}
	change := Change{Dirs: []Dir{{Path: "/etc/kube-timing", Mode: 0o700}}, Files: files, Script: "echo $CHANGED | wc -w"}
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
		paths := make([]string, 30)
		for i := range paths {
			paths[i] = files[i].Path
		}
		f, err := h.Observe(t.Context(), Query{Files: paths, Dirs: []string{"/etc"}, Units: []string{"ssh.service", "etcd.service", "kube-apiserver.service", "x.service"}, Ports: []int{22}, Disks: []string{"/var/lib/etcd"}, Commands: []string{"haproxy"}})
		if err == nil && len(f.Files) != 30 {
			err = fmt.Errorf("%d files", len(f.Files))
		}
		return err
	}
	measure("connect and run", run)
	measure("run", run)
	measure("apply 30 new files", apply)
	measure("apply 30 unchanged files", apply)
	measure("observe 30 files, 4 units", observe)
	measure("observe nothing", func() error { f, err := h.Observe(t.Context(), Query{}); t.Logf("%+v", f); return err })
}
