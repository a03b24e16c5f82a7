package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A machine's disk can be an ext4 file system in an image. The kernel can then be told to
// drop everything of it that was not flushed, as a disk does that loses its power: see
// CutPower. The directory "disk" is what the image is made from. The machine mounts the
// image over it in its own mount namespace, so outside that directory keeps the identity
// that the machine began with, and the mount ends with the machine.

// imageSize is the size of the file system. The image is sparse.
const imageSize = 16 << 30

// ext4Shutdown stops an ext4 file system (EXT4_IOC_SHUTDOWN, which XFS calls
// XFS_IOC_GOINGDOWN). With noLogFlush, nothing more reaches its device: neither data in
// the page cache nor the journal's transaction in memory.
const (
	ext4Shutdown = 0x8004587d // _IOR('X', 125, __u32)
	noLogFlush   = 2
	ext4Freeze   = 0xc0045877 // FIFREEZE
	ext4Thaw     = 0xc0045878 // FITHAW
	loopMajor    = 7          // device number of loop devices
)

// CutPower cuts the machine's power: everything that was not flushed to its disk is lost,
// and all processes end. The machine's disk must be an image (see Config.DiskImages).
func (m *Machine) CutPower(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if m.onImage() {
		if err := m.silence(ctx); err != nil {
			return fmt.Errorf("cut the power of %s: %w", m.Name, err)
		}
	}
	if err := m.shutDownDisk(); err != nil {
		return fmt.Errorf("cut the power of %s: %w", m.Name, err)
	}
	return m.powerOff(ctx)
}

// RebuildOnImage is Rebuild, and the new machine's disk is an image, as CutPower needs it. The
// next Rebuild makes an ordinary disk again, unless the lab has DiskImages.
func (m *Machine) RebuildOnImage(ctx context.Context) error { return m.rebuild(ctx, true, false) }

// onImage reports whether the machine's disk is an image.
func (m *Machine) onImage() bool { return exists(m.imagePath()) }

func (m *Machine) imagePath() string { return m.path("disk.img") }

// makeImage makes an image of the disk that makeDisk has made. Like that one, it is whole
// or absent.
func (m *Machine) makeImage(ctx context.Context) error {
	part := m.imagePath() + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(imageSize); err != nil {
		return err
	}
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-J", "size=64",
		"-E", "lazy_itable_init=1,lazy_journal_init=1", "-d", m.path("disk"), part); err != nil {
		return err
	}
	return os.Rename(part, m.imagePath())
}

// StopDisk makes the machine's disk hang: whatever writes to it waits, and cannot be killed.
// Reads succeed. The disk must be an image. A machine whose disk hangs lets nobody log in.
func (m *Machine) StopDisk() error { return m.ofDisk("stop the disk", freeze) }

// ResumeDisk ends what StopDisk has begun: all writes that waited succeed.
func (m *Machine) ResumeDisk() error { return m.ofDisk("resume the disk", thaw) }

// resumeDisks ends what StopDisk has begun, on all machines: what waits for a disk cannot be killed.
func (l *Lab) resumeDisks() {
	dirs, _ := filepath.Glob(l.path("machines", "*")) // the pattern is valid
	for _, dir := range dirs {
		m := &Machine{lab: l, Name: filepath.Base(dir)}
		if m.onImage() {
			_ = m.ResumeDisk() // most disks need not be resumed
		}
	}
}

// SlowDisk lets the processes of the machine write to its disk so many times a second; 0 is as often as they want. The
// disk must be an image. It needs a controller of cgroups v1 or v2 that limits I/O.
func (m *Machine) SlowDisk(writes int) error {
	return m.ofDisk("slow the disk", func(fd int) error {
		var disk unix.Stat_t
		if err := unix.Fstat(fd, &disk); err != nil {
			return err
		}
		return limitWrites(m.cgroup(), fmt.Sprintf("%d:%d", unix.Major(disk.Dev), unix.Minor(disk.Dev)), writes)
	})
}

// limitWrites limits the writes of a cgroup to a device.
func limitWrites(cgroup, device string, writes int) error {
	err := os.WriteFile(filepath.Join("/sys/fs/cgroup/blkio", cgroup, "blkio.throttle.write_iops_device"),
		fmt.Appendf(nil, "%s %d", device, writes), 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	most := strconv.Itoa(writes)
	if writes == 0 {
		most = "max"
	}
	return os.WriteFile(filepath.Join("/sys/fs/cgroup", cgroup, "io.max"), []byte(device+" wiops="+most), 0)
}

func (m *Machine) ofDisk(what string, do func(fd int) error) error {
	if err := m.onDisk(do); err != nil {
		return fmt.Errorf("%s of %s: %w", what, m.Name, err)
	}
	return nil
}

// shutDownDisk stops the machine's file system.
func (m *Machine) shutDownDisk() error {
	return m.onDisk(func(fd int) error { return unix.IoctlSetPointerInt(fd, ext4Shutdown, noLogFlush) })
}

func freeze(fd int) error { return unix.IoctlSetPointerInt(fd, ext4Freeze, 0) }
func thaw(fd int) error   { return unix.IoctlSetPointerInt(fd, ext4Thaw, 0) }

// onDisk calls do for the machine's file system. It finds it through a process of the
// machine that is in the mount namespace in which boot.sh has mounted the image.
func (m *Machine) onDisk(do func(fd int) error) error {
	pids, err := cgroupProcesses(m.cgroup())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		done, err := withImage(fmt.Sprintf("/proc/%d/root%s", pid, m.path("disk")), m.path("disk"), do)
		if done || err != nil {
			return err
		}
	}
	return errors.New("it is off, or its disk is not an image")
}

// withImage calls do for the file system that is mounted at path. It refuses every file
// system but one on a loop device that is not the one of outside: this computer's own must
// never be stopped.
func withImage(path, outside string, do func(fd int) error) (done bool, err error) {
	dir, err := os.Open(path)
	if err != nil {
		return false, nil // the process has just ended, or is in the machine's own mount namespace
	}
	defer dir.Close()
	var mounted, own unix.Stat_t
	if err := errors.Join(unix.Fstat(int(dir.Fd()), &mounted), unix.Stat(outside, &own)); err != nil {
		return false, err
	}
	if unix.Major(mounted.Dev) != loopMajor || mounted.Dev == own.Dev {
		return false, nil
	}
	if err := do(int(dir.Fd())); err != nil {
		return false, fmt.Errorf("its file system: %w", err)
	}
	return true, nil
}

// waitForUnmount waits until no loop device has an image below dir. A mount ends with the
// last process in its namespace, but the kernel may take a moment.
func waitForUnmount(ctx context.Context, dir string) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			return false, err
		}
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), dir+"/") {
				return false, nil
			}
		}
		return true, nil
	})
}
