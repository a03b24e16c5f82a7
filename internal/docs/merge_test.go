package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// attribute matches a line of a section that sets an attribute.
var attribute = regexp.MustCompile(`^ {2}(\w+) +=`)

// foreign matches sections of other providers, which are not validated.
var foreign = regexp.MustCompile(`^(provider "|(resource|data|ephemeral) ")([a-z0-9_]+)`)

// ofOthers reports whether the section is of another provider.
func ofOthers(s markdown.Section) bool {
	of := foreign.FindStringSubmatch(s.Head)
	return of != nil && of[3] != "kube" && !strings.HasPrefix(of[3], "kube_")
}

// completed merges a configuration of a document into a base: a section in both is the
// document's, plus the attributes of the base that it leaves out. Each attribute of
// the base is one line.
func completed(base, snippet []markdown.Section) string {
	var out []markdown.Section
	for _, b := range base {
		at := slices.IndexFunc(snippet, func(s markdown.Section) bool { return s.Head == b.Head })
		switch {
		case at < 0:
			out = append(out, b)
		case b.Head != "terraform": // a terraform block is never partial
			set := map[string]bool{}
			for _, line := range snippet[at].Body {
				if name := attribute.FindStringSubmatch(line); name != nil {
					set[name[1]] = true
				}
			}
			left := slices.DeleteFunc(slices.Clone(b.Body), func(line string) bool {
				name := attribute.FindStringSubmatch(line)
				return name != nil && set[name[1]]
			})
			out = append(out, markdown.Section{Head: b.Head, Body: left})
		}
	}
	return render(out, snippet)
}

// render writes all sections. Sections with the same name become one.
func render(base, snippet []markdown.Section) string {
	merged := map[string]markdown.Section{}
	var names []string
	for _, s := range slices.Concat(base, snippet) {
		if ofOthers(s) {
			continue
		}
		name := s.Name()
		if _, there := merged[name]; !there {
			names = append(names, name)
		}
		merged[name] = markdown.Section{Head: s.Head, Body: slices.Concat(merged[name].Body, s.Body)}
	}
	var text strings.Builder
	for _, name := range names {
		text.WriteString(merged[name].String())
	}
	return text.String()
}

func TestCompleted(t *testing.T) {
	base, _ := markdown.Sections(
		"terraform {\n  a = 1\n}\n\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  size = 1\n}\n")
	for name, c := range map[string]struct{ snippet, want string }{
		"nothing": {"", "terraform {\n  a = 1\n}\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  size = 1\n}\n"},
		"a part": {
			"resource \"kube_x\" \"prod\" {\n  # …\n  size = {\n    name = 2\n  }\n}\n",
			"terraform {\n  a = 1\n}\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  # …\n" +
				"  size = {\n    name = 2\n  }\n}\n",
		},
		"imports": {
			"import {\n  to = kube_x.a\n}\nimport {\n  to = kube_x.b\n}\n",
			"terraform {\n  a = 1\n}\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  size = 1\n}\n" +
				"import {\n  to = kube_x.a\n}\nimport {\n  to = kube_x.b\n}\n",
		},
		"in one line, beside another provider's": {
			"resource \"kube_x\" \"prod\" { name = \"m\" }\nprovider \"other\" {\n  b = 1\n}\nterraform {\n  c = 1\n}\n",
			"resource \"kube_x\" \"prod\" {\n  size = 1\n  name = \"m\"\n}\nterraform {\n  c = 1\n}\n",
		},
	} {
		snippet, loose := markdown.Sections(c.snippet)
		if got := completed(base, snippet); got != c.want || loose != nil {
			t.Errorf("%s: got\n%s\nwant\n%s\nand %q is in no section", name, got, c.want, loose)
		}
	}
}

var (
	fileRead  = regexp.MustCompile(`file\("([^"$]+)"\)`)
	usedNames = regexp.MustCompile(`\bvar\.(\w+)`)
)

// withFilesAndVariables creates the files that a configuration reads, with the content
// from testdata, and those below ~ in home. It adds declarations of the variables.
func withFilesAndVariables(t *testing.T, text, dir, home string) string {
	t.Helper()
	for _, match := range fileRead.FindAllStringSubmatch(text, -1) {
		path := filepath.Join(dir, match[1])
		if below, ok := strings.CutPrefix(match[1], "~/"); ok {
			path = filepath.Join(home, below)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join("testdata", match[1]))
		if err != nil { // its content does not matter
			content = []byte("unused")
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	declared := map[string]bool{}
	for _, match := range usedNames.FindAllStringSubmatch(text, -1) {
		if name := match[1]; !declared[name] && !strings.Contains(text, `variable "`+name+`"`) {
			declared[name] = true
			text += fmt.Sprintf("variable %q {}\n", name)
		}
	}
	return text
}
