package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMessages holds that each message that the guide on troubleshooting explains
// is one that the provider can give: what stands between its gaps (…) is in the
// sources.
func TestMessages(t *testing.T) {
	sources, count := sourcesOf(t), 0
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(documents(t)["templates/guides/troubleshooting.md"]) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, message := range quoted.FindAllStringSubmatch(cells[1], -1) {
			count++
			for _, words := range strings.Split(message[1], "…") {
				if words = strings.ToLower(strings.TrimSpace(words)); !strings.Contains(sources, words) {
					t.Errorf("%q is explained, and nothing says %q", message[1], words)
				}
			}
		}
	}
	if count == 0 {
		t.Error("no message is explained: the guide is not where this test looks")
	}
}

// sourcesOf is all that is compiled into the provider, in lower case.
func sourcesOf(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	dir := filepath.Join(root(t), "internal")
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		all.WriteString(strings.ToLower(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
