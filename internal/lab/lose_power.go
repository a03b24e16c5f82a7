package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// LosePower cuts the power of the machine, as CutPower does, and boots it again. It compares
// everything below dirs with what was there immediately before, and returns Differences. The
// processes of the machine are stopped before that is read, and it is read from outside, so
// that nothing of the machine is flushed meanwhile.
func (m *Machine) LosePower(ctx context.Context, dirs ...string) (differences []string, err error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := m.cutPowerAfterRead(dirs)
	if err := errors.Join(err, m.powerOff(ctx)); err != nil {
		return nil, fmt.Errorf("cut the power of %s: %w", m.Name, err)
	}
	if err := m.boot(ctx); err != nil {
		return nil, err
	}
	after, err := m.files(dirs)
	return Differences(before, after), err
}

// cutPowerAfterRead returns the files that a machine has when it loses its power. Its
// processes still exist afterwards, but no longer run.
func (m *Machine) cutPowerAfterRead(dirs []string) ([]string, error) {
	pids, err := cgroupProcesses(m.cgroup())
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop process %d: %w", pid, err)
		}
	}
	files, err := m.files(dirs)
	if err != nil {
		return nil, err
	}
	return files, m.shutDownDisk()
}

// files lists everything below dirs of the running machine, sorted. Each line has the path,
// the mode, the owner, and the digest of a file or the target of a link.
func (m *Machine) files(dirs []string) ([]string, error) {
	pids, err := cgroupProcesses(m.cgroup())
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, pid := range pids {
		root := fmt.Sprintf("/proc/%d/root%s", pid, m.path("root")) // nspawn itself is outside the machine
		if !exists(root + "/etc") {
			continue
		}
		for _, dir := range dirs {
			if err := walkFiles(root, dir, func(line string) { lines = append(lines, line) }); err != nil {
				return nil, fmt.Errorf("list files of %s: %w", m.Name, err)
			}
		}
		return lines, nil
	}
	return nil, fmt.Errorf("list files of %s: it is off", m.Name)
}

// walkFiles describes the files below dir, if it exists.
func walkFiles(root, dir string, add func(line string)) error {
	return filepath.WalkDir(root+dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // also a file that the machine has just removed
		} else if err != nil {
			return err
		}
		line, err := describe(path, entry)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		add(path[len(root):] + " " + line)
		return nil
	})
}

func describe(path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	content := ""
	switch {
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		content = fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
	case info.Mode()&fs.ModeSymlink != 0:
		if content, err = os.Readlink(path); err != nil {
			return "", err
		}
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d:%d %s", info.Mode(), owner.Uid, owner.Gid, content), nil
}
