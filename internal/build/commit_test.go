package build

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSince(t *testing.T) {
	for _, c := range [][3]string{
		{"1111", "1111", "1111"},
		{"1111", "2222", "1111-dirty"},
		{"1111", "1111-dirty", "1111-dirty"},
		{"1111-dirty", "1111-dirty", "1111-dirty"},
		{"1111-dirty", "1111", "1111-dirty"},
	} {
		if got := since(c[0], c[1]); got != c[2] {
			t.Errorf("a run that began at %s and ends at %s is of %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

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
	create := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create("images/soak.json")
	run("add", "images")
	create("images/interruptions.json")
	if got, err := commitOf(t.Context(), dir); err != nil || got != clean {
		t.Errorf("with other results: %q, %v", got, err)
	}
	create("new")
	if dirty, err := commitOf(t.Context(), dir); err != nil || dirty != clean+"-dirty" {
		t.Errorf("with a new file: %q, %v", dirty, err)
	}
}
