package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// leftovers looks for anything of the lab in all places where one leaves traces.
func leftovers(t *testing.T, name string) []string {
	t.Helper()
	var got []string
	for _, pattern := range []string{
		"/var/lib/kube-lab/" + name, "/run/netns/*" + name + "*",
		"/sys/fs/cgroup/kube-lab/" + name, "/sys/fs/cgroup/*/kube-lab/" + name,
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(name)) {
		got = append(got, "a mount")
	}
	images, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range images {
		if file, _ := os.ReadFile(path); bytes.Contains(file, []byte(name)) {
			got = append(got, string(file))
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		if line, _ := os.ReadFile(path); bytes.Contains(line, []byte(name)) {
			got = append(got, string(line))
		}
	}
	return got
}

// interfaces names the computer's own network interfaces.
func interfaces(t *testing.T) []string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

func requireLab(t *testing.T) {
	t.Helper()
	if missing := lab.Missing(); missing != "" {
		testrun.Missing(t, missing)
	}
}

// up makes a lab for one test.
func up(t *testing.T, name string, machines ...string) *lab.Lab {
	t.Helper()
	return upWith(t, lab.Config{Name: labName(name), Subnet: subnet, Machines: machines})
}

func upWith(t *testing.T, config lab.Config) *lab.Lab {
	t.Helper()
	requireLab(t)
	t.Cleanup(func() { destroy(t, config.Name) })
	l, err := lab.Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func labName(name string) string { return fmt.Sprintf("labtest-%d-%s", os.Getpid(), name) }

func destroy(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := lab.Destroy(ctx, name); err != nil {
		t.Error(err)
	}
}

func sh(t *testing.T, m *lab.Machine, script string) string {
	t.Helper()
	out, err := m.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func command(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

func id(t *testing.T, m *lab.Machine) string {
	t.Helper()
	id, err := m.MachineID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func hostKey(t *testing.T, m *lab.Machine) string {
	t.Helper()
	key, err := m.HostKey()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(key, "ssh-ed25519 ") {
		t.Fatalf("host key is %q", key)
	}
	return key
}
