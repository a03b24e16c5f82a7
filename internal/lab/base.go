package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
)

const suite = "bookworm"

// basePackages are on every machine: what a small server image has.
const basePackages = "systemd,systemd-sysv,dbus,openssh-server,sudo,iproute2,ca-certificates,curl,procps,iptables," +
	"conntrack"

//go:embed base.sh
var baseScript string

// baseTree gives the path of the tree that all machines share as the read-only
// lower layer of their disks, and builds it when it is not there. Its name holds
// a hash of the recipe: a tree is never changed while a disk lies on top of it.
func baseTree(ctx context.Context, log io.Writer) (string, error) {
	recipe := sha256.Sum256([]byte(suite + basePackages + baseScript))
	dir, err := cache.Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "machines")
	tree := filepath.Join(dir, fmt.Sprintf("%s-%x", suite, recipe[:6]))
	if exists(tree) {
		return tree, nil
	}
	fmt.Fprintln(log, "building the machines' base tree once, or waiting for another process that builds it: 1-2 minutes")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	unlock, err := lockDir(ctx, dir) // another process may be building the same tree
	if err != nil {
		return "", fmt.Errorf("wait for the machines' base tree: %w", err)
	}
	defer unlock()
	if exists(tree) {
		return tree, nil
	}
	if err := buildBase(ctx, log, tree); err != nil {
		return "", fmt.Errorf("build the machines' base tree: %w", err)
	}
	return tree, nil
}

// buildBase builds beside the tree and renames, so that a tree is whole or absent.
func buildBase(ctx context.Context, log io.Writer, tree string) error {
	start := time.Now()
	part := tree + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	args := []string{"--variant=minbase", "--include=" + basePackages, suite, part}
	if mirror := aptMirror(ctx); mirror != "" {
		args = append(args, mirror)
	}
	if err := show(ctx, exec.CommandContext(ctx, "unshare", append([]string{"--mount", "debootstrap"}, args...)...),
		log); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "chroot", part, "sh", "-c", `exec sh -c "$(cat)" </dev/null`)
	cmd.Stdin = strings.NewReader(baseScript)
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp") // that of this process need not be in the tree
	if err := show(ctx, cmd, log); err != nil {
		return err
	}
	if err := os.Rename(part, tree); err != nil {
		return err
	}
	fmt.Fprintf(log, "base tree ready after %s\n", time.Since(start).Round(time.Second))
	return nil
}

// aptMirror is the mirror from which this computer's own apt takes the suite, or ""
// for debootstrap's default.
func aptMirror(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main", "Codename: "+suite).Output()
	if err != nil {
		return ""
	}
	uri, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return uri
}

// show runs cmd with progress on log. Of the thousand lines that debootstrap
// writes, one now and then is shown, and the last ones when it fails.
func show(ctx context.Context, cmd *exec.Cmd, log io.Writer) error {
	lines := &progress{to: log, start: time.Now()}
	cmd.Stdout, cmd.Stderr = lines, lines
	if err := cmd.Run(); ctx.Err() != nil {
		return ctx.Err() // what an interrupted command says is of no interest
	} else if err != nil {
		return commandError(strings.Join(cmd.Args, " "), bytes.Join(lines.last, []byte("\n")), err)
	}
	return nil
}

// progress passes on at most one line in five seconds and keeps the last ones.
type progress struct {
	to           io.Writer
	start, shown time.Time
	partial      []byte
	last         [][]byte
}

// Write implements io.Writer.
func (p *progress) Write(data []byte) (int, error) {
	p.partial = append(p.partial, data...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		p.partial = rest
		p.last = append(p.last, bytes.Clone(line))
		if len(p.last) > 20 {
			p.last = p.last[1:]
		}
		if time.Since(p.shown) > 5*time.Second {
			p.shown = time.Now()
			fmt.Fprintf(p.to, "  %3.0f s  %s\n", time.Since(p.start).Seconds(), line)
		}
	}
}
