package lab

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
)

// Scripts for machines that run containers. The first lines of each describe it.
var (
	//go:embed containers_prepare.sh
	prepareScript string
	//go:embed containers.sh
	containersScript string
	//go:embed containers_runc.sh
	runcScript string
)

// containersPath is the directory with a machine's containers; only machines that run some have it.
func (m *Machine) containersPath() string { return m.path("containers") }

// RebuildForContainers is Rebuild, and the new machine can run containers: containerd runs, with pause as the image
// of the sandbox of each Pod, and a network plugin. The next Rebuild makes an ordinary machine again.
func (m *Machine) RebuildForContainers(ctx context.Context, pause string) error {
	if err := m.rebuild(ctx, false, true); err != nil {
		return err
	}
	if _, err := m.Run(ctx, "sandbox_image='"+pause+"'\n"+prepareScript+containersScript); err != nil {
		return fmt.Errorf("install containerd on %s: %w", m.Name, err)
	}
	return nil
}

// RebuildWithoutRuntime is RebuildForContainers without containerd, for tests that install it.
func (m *Machine) RebuildWithoutRuntime(ctx context.Context) error {
	if err := m.rebuild(ctx, false, true); err != nil {
		return err
	}
	if _, err := m.Run(ctx, prepareScript+runcScript); err != nil {
		return fmt.Errorf("prepare %s for containers: %w", m.Name, err)
	}
	return nil
}

// ImportImage gives containerd the images of an archive, so that no registry is needed.
func (m *Machine) ImportImage(ctx context.Context, archive io.Reader) error {
	load := m.SSH(ctx, "ctr --namespace k8s.io images import -")
	load.Stdin = archive
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("import an image on %s: %w: %s", m.Name, err, bytes.TrimSpace(out))
	}
	return nil
}
