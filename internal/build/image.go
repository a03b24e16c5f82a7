package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// PodImage writes the image of the lab's Pods to the file archive: scratch and one static program of this checkout,
// under that name. The program is also the pause of a Pod. The modules that write it must have been downloaded.
func PodImage(ctx context.Context, reference, archive string) error {
	root, err := Checkout()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "node-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	show := newProgress(os.Stderr, "node image")
	defer show.stop()
	command := goCommand{
		dir: filepath.Join(root, "tools", "node-image"), env: []string{"CGO_ENABLED=0"}, log: io.Discard, show: show,
	}
	if _, err := command.run(ctx, []string{
		"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator), ".", "./pod",
	}); err != nil {
		return fmt.Errorf("build the image of Pods: %w", err)
	}
	write := exec.CommandContext(ctx, filepath.Join(dir, "node-image"), "-reference", reference,
		"-program", filepath.Join(dir, "pod"), "-output", archive)
	if out, err := write.CombinedOutput(); err != nil {
		return fmt.Errorf("write the image of Pods: %w: %s", err, out)
	}
	return nil
}
