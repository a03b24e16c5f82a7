package soak

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// The third member has its data on a volume, which the third machine and the fourth have.
const (
	volumeDevice = "/dev/etcd-volume"
	volumePlace  = "/var/lib/etcd-volume"
	volumeSize   = 2 << 30 // of which little is used; the provider wants one half to be free
)

// cutVolume creates a cluster with a blank volume, moves its member to another machine and back, and destroys it. Each
// operation is cut at its own points.
func cutVolume(ctx context.Context, e *Env) ([]Result, error) {
	here, there := []string{"cp1", "cp2", "cp3", "cp4"}, []string{"cp1", "cp2", "cp4", "cp3"}
	if err := e.Lab.Add(ctx, here...); err != nil {
		return nil, err
	}
	files, err := fs.Sub(etcdFiles, "etcd")
	if err != nil {
		return nil, err
	}
	v := &movingVolume{file: filepath.Join(e.Dir, "volume.img"), machines: e.controlPlane(4)[2:]}
	defer v.remove()
	own := *e
	own.Dir = filepath.Join(e.Dir, "members")
	s := &sweep{env: &own, config: files, order: here, surround: v.renew}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s.run(ctx,
		e.track(operation{name: "etcd create with a volume", machines: 3, on: here, before: v.blank}),
		e.track(operation{name: "etcd move of a volume", machines: 3, on: there}),
		e.track(operation{name: "etcd move of a volume back", machines: 3, on: here}),
		e.track(operation{name: "etcd destroy with a volume", afterHealthInterval: true}))
}

// movingVolume is the volume, which all its machines have as a device.
type movingVolume struct {
	file     string
	machines fleet
	disk     *lab.Volume
}

// renew makes a volume for machines without one, and returns the variables of its member.
func (v *movingVolume) renew(ctx context.Context) (map[string]any, error) {
	v.remove()
	if err := os.MkdirAll(filepath.Dir(v.file), 0o700); err != nil {
		return nil, fmt.Errorf("make a volume: %w", err)
	}
	disk, err := lab.NewVolume(ctx, v.file, volumeSize)
	if err != nil {
		return nil, err
	}
	v.disk = &disk
	for _, m := range v.machines {
		if err := disk.Attach(ctx, m, volumeDevice); err != nil {
			return nil, err
		}
	}
	member := map[string]string{"device": volumeDevice, "mount_path": volumePlace}
	return map[string]any{"volumes": map[string]any{machineNames[2]: member}}, nil
}

// blank removes what is on the volume, which no machine has mounted.
func (v *movingVolume) blank(ctx context.Context) error {
	_, err := v.machines[0].Run(ctx, "wipefs --quiet --all "+volumeDevice+" && "+
		"dd if=/dev/zero of="+volumeDevice+" bs=1M count=1 2>/dev/null")
	return err
}

// remove removes the volume, if there is one. A machine that has it mounted keeps it.
func (v *movingVolume) remove() {
	if v.disk != nil {
		_ = v.disk.Remove()
		v.disk = nil
	}
}
