package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Volume is a disk that moves from machine to machine, as that of a cloud: a file of this computer, which machines have
// as a block device.
type Volume struct{ file, loop string }

// NewVolume makes a blank volume of size bytes. Its file takes only the space of what is written to it.
func NewVolume(ctx context.Context, file string, size int64) (Volume, error) {
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
		return Volume{}, fmt.Errorf("make a volume: %w", err)
	}
	loop, err := exec.CommandContext(ctx, "losetup", "--find", "--show", file).Output()
	if err != nil {
		return Volume{}, fmt.Errorf("make a volume of %s: %w", file, err)
	}
	return Volume{file: file, loop: strings.TrimSpace(string(loop))}, nil
}

// Attach gives a machine the volume as device, which may be attached to another one too.
func (v Volume) Attach(ctx context.Context, m *Machine, device string) error {
	_, err := m.Run(ctx, fmt.Sprintf("rm -f %s\nmknod %[1]s b 7 %s", device, strings.TrimPrefix(v.loop, "/dev/loop")))
	if err != nil {
		return fmt.Errorf("attach a volume to %s: %w", m.Name, err)
	}
	return nil
}

// Detach takes the volume of a machine that runs. What has mounted it keeps it.
func (v Volume) Detach(ctx context.Context, m *Machine, device string) error {
	if _, err := m.Run(ctx, "rm -f "+device); err != nil {
		return fmt.Errorf("detach a volume from %s: %w", m.Name, err)
	}
	return nil
}

// Remove removes the volume.
func (v Volume) Remove() error {
	return errors.Join(run(context.Background(), "losetup", "--detach", v.loop), os.Remove(v.file))
}
