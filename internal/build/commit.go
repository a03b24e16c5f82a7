package build

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// results are the files that runs write into the checkout. No program is made of them, so they change no commit: a run
// goes on with the record of an earlier one, and the next one measures the same programs.
const results = ":(top,exclude,glob)images/*.json*"

// dirty marks the commit of a checkout that differs from it.
const dirty = "-dirty"

// Commit returns the hash of the checkout's commit, with "-dirty" if the checkout differs from it,
// also by files that are neither in it nor ignored, but not by results.
func Commit(ctx context.Context) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	return commitOf(ctx, root)
}

// CommitSince returns the commit of what was built since the checkout was at the commit begun: with "-dirty" if it is
// not there any more.
func CommitSince(ctx context.Context, begun string) (string, error) {
	now, err := Commit(ctx)
	return since(begun, now), err
}

func since(begun, now string) string {
	if now == begun || strings.HasSuffix(begun, dirty) {
		return begun
	}
	return begun + dirty
}

func commitOf(ctx context.Context, dir string) (string, error) {
	hash, err := git(ctx, dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git(ctx, dir, "status", "--porcelain", "--", ":/", results)
	if err != nil {
		return "", err
	}
	if changes != "" {
		hash += dirty
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
