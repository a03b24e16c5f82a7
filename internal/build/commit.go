package build

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Commit returns the hash of the checkout's commit, with "-dirty" if the checkout differs from it,
// also by files that are neither in it nor ignored.
func Commit(ctx context.Context) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	return commitOf(ctx, root)
}

func commitOf(ctx context.Context, dir string) (string, error) {
	hash, err := git(ctx, dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		hash += "-dirty"
	}
	return hash, nil
}

// git runs git in dir, also if that belongs to another user: root runs what users check out.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	args = append([]string{"-c", "safe.directory=*", "-C", dir, "--no-optional-locks"}, args...)
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("determine the commit of %s: %w: %s", dir, err, text)
	}
	return text, nil
}
