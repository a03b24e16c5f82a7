package build

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	if _, err := commitOf(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory without a commit: %v", err)
	}
	run := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "--quiet")
	run("commit", "--quiet", "--allow-empty", "--message=first")
	clean, err := commitOf(t.Context(), dir)
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{40,64}$`).MatchString(clean) {
		t.Errorf("clean: %q, %v", clean, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if dirty, err := commitOf(t.Context(), dir); err != nil || dirty != clean+"-dirty" {
		t.Errorf("with a new file: %q, %v", dirty, err)
	}
}
