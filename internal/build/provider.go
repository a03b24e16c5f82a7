package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Checkout returns the root of the checkout that the process runs in, from any of its
// directories.
func Checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find checkout: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(catalogue()[0].module(dir), "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find checkout: %s is not inside a checkout of this project", start)
		}
	}
}

// Provider builds a provider of this checkout into the file at path, with the flags of "go
// test", so that both share compiled packages. program is the folder of its main package; "."
// is the released provider. With KUBE_TEST_RACE=1, the provider detects data races.
func Provider(ctx context.Context, program, path string, variables ...string) error {
	root, err := Checkout()
	if err != nil {
		return err
	}
	show := newProgress(os.Stderr, "provider")
	defer show.stop()
	show.step("compiling")
	command := goCommand{dir: root, log: io.Discard, show: show}
	args := []string{"build", "-v", "-o", path}
	if len(variables) > 0 {
		args = append(args, "-ldflags=-X "+strings.Join(variables, " -X "))
	}
	if os.Getenv("KUBE_TEST_RACE") == "1" {
		args, command.env = append(args, "-race"), []string{"CGO_ENABLED=1"}
	}
	if _, err := command.run(ctx, append(args, "./"+program)); err != nil {
		return fmt.Errorf("build provider: %w", err)
	}
	return nil
}

// SnapshotStore builds kube-snapshot-store of this checkout, which is a module of its own, into the
// file at path. It reports the version.
func SnapshotStore(ctx context.Context, version, path string) error {
	root, err := Checkout()
	if err != nil {
		return err
	}
	show := newProgress(os.Stderr, "kube-snapshot-store")
	defer show.stop()
	show.step("compiling")
	command := goCommand{
		dir: filepath.Join(root, "tools", "snapshot-store"), env: []string{"CGO_ENABLED=0"}, log: io.Discard, show: show,
	}
	args := []string{"build", "-trimpath", "-ldflags=-s -w -X main.version=" + version, "-o", path, "."}
	if _, err := command.run(ctx, args); err != nil {
		return fmt.Errorf("build kube-snapshot-store: %w", err)
	}
	return nil
}
