// Package docs tests the documents: commands, configurations, messages, targets
// and links. It contains only tests. CONTRIBUTING.md describes the marks of blocks.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// block is a fenced code block of a Markdown file.
type block struct {
	file     string // path in the checkout
	line     int    // line of the opening fence
	language string
	mark     string // comment on the line before it; "" if there is none
	text     string // without the indentation of the fence
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

var (
	fence   = regexp.MustCompile("^( *)```(\\w*)$")
	comment = regexp.MustCompile(`^ *<!-- (.*) -->$`)
)

// blocksOf returns the fenced blocks of a document.
func blocksOf(file, text string) []block {
	var out []block
	var open *block
	var indent, before string
	for number, line := range strings.Split(text, "\n") {
		got := fence.FindStringSubmatch(line)
		switch {
		case open == nil && got != nil:
			indent = got[1]
			open = &block{file: file, line: number + 1, language: got[2]}
			if mark := comment.FindStringSubmatch(before); mark != nil {
				open.mark = mark[1]
			}
		case open != nil && line == indent+"```":
			out, open = append(out, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
		before = line
	}
	return out
}

func TestBlocksOf(t *testing.T) {
	const text = "# Title\n\n<!-- illustrative -->\n```sh\nmake\n```\n\n1. A step:\n\n   ```hcl\n   a = {\n     b = 1\n " +
		"  }\n   ```\n\n<!-- far -->\n\n```\nplain\n```\n"
	got := blocksOf("x.md", text)
	want := []block{
		{"x.md", 4, "sh", "illustrative", "make\n"},
		{"x.md", 10, "hcl", "", "a = {\n  b = 1\n}\n"},
		{"x.md", 18, "", "", "plain\n"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the blocks are %+v, want %+v", got, want)
	}
}

// root returns the directory of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// documents returns the Markdown files that people write, by path. docs/ is
// generated from templates/.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	dir := root(t)
	read := func(path string) {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	tops, err := fs.Glob(os.DirFS(dir), "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tops {
		read(path)
	}
	for _, folder := range []string{"templates", "modules", "examples", "tools"} {
		err := fs.WalkDir(os.DirFS(dir), folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && (strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".md.tmpl")) {
				read(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// allBlocks returns the blocks of every document.
func allBlocks(t *testing.T) []block {
	t.Helper()
	var out []block
	for file, text := range documents(t) {
		out = append(out, blocksOf(file, text)...)
	}
	slices.SortFunc(out, func(a, b block) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return out
}
