package docs

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestLayout checks that the list of packages in DESIGN.md has exactly those of the tree.
func TestLayout(t *testing.T) {
	_, section, _ := strings.Cut(documents(t)["DESIGN.md"], "\n## Layout")
	_, list, _ := strings.Cut(section, "```\n")
	list, _, _ = strings.Cut(list, "```\n")
	listed, inTree := layoutOf(list), map[string]bool{}
	sources(t, func(name string, _ *ast.File) {
		if !strings.Contains(name, "/testdata/") {
			inTree[path.Dir(name)] = true
		}
	})
	for name := range inTree {
		if !listed[name] {
			t.Errorf("the layout in DESIGN.md lacks internal/%s", name)
		}
	}
	for name := range listed {
		if !inTree[name] {
			t.Errorf("the layout in DESIGN.md has internal/%s, which has no Go files", name)
		}
	}
}

// layoutPackages are the directories at the beginning of a line: one, or several of one parent.
var layoutPackages = regexp.MustCompile(`^(internal/|    )((?:[a-z0-9/]+/(?:, |\s))+)`)

// layoutOf returns the packages of a list, below internal/. Indented ones are below the package that is listed before.
func layoutOf(list string) map[string]bool {
	names, parent := map[string]bool{}, ""
	for _, line := range strings.Split(list, "\n") {
		match := layoutPackages.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		for _, name := range strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			name = strings.Trim(name, "/")
			if match[1] == "internal/" {
				parent = name
				names[name] = true
			} else {
				names[path.Join(parent, name)] = true
			}
		}
	}
	return names
}
