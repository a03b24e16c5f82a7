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
	return writeImage(ctx, reference, "", "/", archive)
}

// ProgramImage writes an image with one static program, which is where the images of Kubernetes have theirs.
func ProgramImage(ctx context.Context, reference, program, archive string) error {
	return writeImage(ctx, reference, program, "/usr/local/bin", archive)
}

// writeImage writes an image with a program in a directory; "" is the program of the lab's Pods.
func writeImage(ctx context.Context, reference, program, directory, archive string) error {
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
	show.step("compiling")
	command := goCommand{
		dir: filepath.Join(root, "tools", "node-image"), env: []string{"CGO_ENABLED=0"}, log: io.Discard, show: show,
	}
	if _, err := command.run(ctx, []string{
		"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator), ".", "./pod",
	}); err != nil {
		return fmt.Errorf("build the image of Pods: %w", err)
	}
	if program == "" {
		program = filepath.Join(dir, "pod")
	}
	write := exec.CommandContext(ctx, filepath.Join(dir, "node-image"), "-reference", reference,
		"-program", program, "-directory", directory, "-output", archive)
	if out, err := write.CombinedOutput(); err != nil {
		return fmt.Errorf("write image %s: %w: %s", reference, err, out)
	}
	return nil
}
