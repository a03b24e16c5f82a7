package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMessages checks that the provider contains each message that the guide on
// troubleshooting explains. An ellipsis (…) in a message stands for any text.
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
			for _, fragment := range strings.Split(message[1], "…") {
				if fragment = strings.ToLower(strings.TrimSpace(fragment)); !strings.Contains(sources, fragment) {
					t.Errorf("the guide explains %q, and no source contains %q", message[1], fragment)
				}
			}
		}
	}
	if count == 0 {
		t.Error("found no messages: the guide is not where this test looks")
	}
}

// joint is what stands between the parts of a long string.
var joint = regexp.MustCompile(`"\s*\+\s*"`)

// sourcesOf returns the sources below internal/ without tests, in lower case, with the parts of
// long strings joined.
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
	return joint.ReplaceAllString(all.String(), "")
}

// value matches what a message has of one machine: names, numbers, paths, quoted values and states of units.
var value = regexp.MustCompile(`\S*[\d/."]\S*|--\S+|kube-\S+|inactive`)

// TestDriftInReadme checks that the provider says what the README shows of a plan with drift.
func TestDriftInReadme(t *testing.T) {
	sources, count := sourcesOf(t), 0
	for _, line := range regexp.MustCompile(`(?m)^ +- "(.*)",$`).FindAllStringSubmatch(documents(t)["README.md"], -1) {
		count++
		for _, fragment := range value.Split(line[1], -1) {
			if !strings.Contains(sources, strings.TrimSpace(fragment)) {
				t.Errorf("README.md shows %q, and no source contains %q", line[1], fragment)
			}
		}
	}
	if count != 4 {
		t.Errorf("README.md shows %d lines of drift, want 4", count)
	}
}
