package markdown

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Documents returns the Markdown files of a checkout that people write, by path. docs/ is
// generated from templates/.
func Documents(checkout string) (map[string]string, error) {
	files := os.DirFS(checkout)
	paths, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	for _, folder := range []string{"templates", "modules", "examples", "tools"} {
		err := fs.WalkDir(files, folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && (strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".md.tmpl")) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find documents: %w", err)
		}
	}
	out := map[string]string{}
	for _, path := range paths {
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		out[path] = string(text)
	}
	return out, nil
}

// AllBlocks returns the blocks of every document of a checkout, in order.
func AllBlocks(checkout string) ([]Block, error) {
	documents, err := Documents(checkout)
	if err != nil {
		return nil, err
	}
	var out []Block
	for file, text := range documents {
		out = append(out, Blocks(file, text)...)
	}
	slices.SortFunc(out, func(a, b Block) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return out, nil
}
