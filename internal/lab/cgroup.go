package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Each machine is a cgroup. Without one of its own, two machines' systemds would
// use the same groups and stop each other's units. It is also the only record of
// a machine's processes: unlike a written-down process id it can never mean
// another process, and it finds the machine's init when nspawn is already dead.
//
// The path is that of lab and machine, as "kube-lab/NAME/MACHINE".

func (l *Lab) cgroup() string     { return filepath.Join("kube-lab", l.Name) }
func (m *Machine) cgroup() string { return filepath.Join(m.lab.cgroup(), m.Name) }

// hierarchies lists the mounted cgroup hierarchies: one with cgroups v2, many
// with v1, and both kinds on a hybrid system.
func hierarchies() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if exists(filepath.Join(root, "cgroup.controllers")) {
		return []string{root}, nil
	}
	paths, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, procs := range paths {
		dirs = append(dirs, filepath.Dir(procs))
	}
	if len(dirs) == 0 {
		return nil, errors.New("no cgroups under " + root + " (within `ip netns exec` they are hidden: use `kube-lab exec`)")
	}
	return dirs, nil
}

// makeCgroup makes the cgroup in all hierarchies and gives the files that a
// process writes its id to in order to join.
func makeCgroup(path string) ([]string, error) {
	dirs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var procs []string
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			return nil, fmt.Errorf("make cgroup: %w", err)
		}
		if filepath.Base(dir) == "cpuset" {
			if err := shareCPUs(dir, path); err != nil {
				return nil, fmt.Errorf("make cgroup: %w", err)
			}
		}
		procs = append(procs, filepath.Join(dir, path, "cgroup.procs"))
	}
	return procs, nil
}

// shareCPUs gives the groups of path in a hierarchy of cpusets all CPUs: a new cpuset has none, and admits nobody.
// A machine that is in no cpuset of its own would make those of its containers among those of this computer.
func shareCPUs(root, path string) error {
	parent := root
	for part := range strings.SplitSeq(path, string(filepath.Separator)) {
		group := filepath.Join(parent, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(group, file), all, 0o644); err != nil {
				return err
			}
		}
		parent = group
	}
	return nil
}

// killCgroup kills every process below the cgroup, waits until they are gone, and
// removes the cgroup. It repeats this because a group stays busy for a moment after
// its last process has ended, and because a process may still join.
func killCgroup(ctx context.Context, path string) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		pids, err := cgroupProcesses(path)
		if err != nil {
			return false, err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		if len(pids) > 0 {
			return false, nil
		}
		return removeCgroups(path)
	})
	if err != nil {
		return fmt.Errorf("end the processes of %s: %w", path, err)
	}
	return nil
}

// removeCgroups removes the cgroup from every hierarchy; false when one is busy.
func removeCgroups(path string) (bool, error) {
	dirs, err := hierarchies()
	if err != nil {
		return false, err
	}
	for _, dir := range dirs {
		if removed, err := removeCgroup(filepath.Join(dir, path)); !removed || err != nil {
			return false, err
		}
		_ = os.Remove(filepath.Join(dir, "kube-lab")) // when no other lab is in it
	}
	return true, nil
}

// cgroupProcesses lists the processes in the cgroup and all below it.
func cgroupProcesses(path string) ([]int, error) {
	dirs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	var pids []int
	for _, dir := range dirs {
		err := walkCgroup(filepath.Join(dir, path), func(group string) error {
			data, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
			if err != nil {
				return err
			}
			for _, field := range strings.Fields(string(data)) {
				// 0 is a process that this namespace cannot see.
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list processes of %s: %w", path, err)
		}
	}
	return pids, nil
}

// removeCgroup removes a cgroup without processes, deepest first; false when it is
// busy.
func removeCgroup(dir string) (bool, error) {
	var groups []string
	if err := walkCgroup(dir, func(group string) error { groups = append(groups, group); return nil }); err != nil {
		return false, err
	}
	for _, group := range slices.Backward(groups) {
		err := os.Remove(group)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.EBUSY):
			return false, nil
		default:
			return false, fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return true, nil
}

// walkCgroup visits dir and all groups below it, parents first. Groups may vanish
// meanwhile: a dying machine removes its own.
func walkCgroup(dir string, visit func(group string) error) error {
	gone := func(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }
	if err := visit(dir); err != nil {
		if gone(err) {
			return nil
		}
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := walkCgroup(filepath.Join(dir, e.Name()), visit); err != nil {
				return err
			}
		}
	}
	return nil
}
