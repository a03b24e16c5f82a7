package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFiles checks that the files and directories of the checkout that documents name
// in code spans exist: paths such as internal/lab, and Go files by their name alone.
func TestFiles(t *testing.T) {
	var (
		path   = regexp.MustCompile("`((?:internal|cmd|tools|examples|modules|templates)/[A-Za-z0-9_./-]+)`")
		goFile = regexp.MustCompile("`([a-z0-9_]+\\.go)`")
	)
	dir, names, count := root(t), goFiles(t), 0
	for file, text := range documents(t) {
		for _, match := range path.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join(dir, match[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", file, match[1])
			}
		}
		for _, match := range goFile.FindAllStringSubmatch(text, -1) {
			count++
			if !names[match[1]] {
				t.Errorf("%s names %s, which does not exist", file, match[1])
			}
		}
	}
	if count == 0 {
		t.Error("found no files: the documents are not where this test looks")
	}
}

// goFiles returns the names of the Go files below internal/ and cmd/.
func goFiles(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, folder := range []string{"internal", "cmd"} {
		err := fs.WalkDir(os.DirFS(root(t)), folder, func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(entry.Name(), ".go") {
				out[entry.Name()] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
