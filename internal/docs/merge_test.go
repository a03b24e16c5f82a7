package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section is a top-level block of a Terraform file, formatted by "terraform fmt".
type section struct {
	head string // such as: resource "kube_etcd_member" "prod"
	body []string
}

var (
	opening   = regexp.MustCompile(`^([a-z_]+(?: "[^"]+")*) \{(.*)$`)
	attribute = regexp.MustCompile(`^ {2}(\w+) +=`)
)

// sections returns the sections of a text. loose are the lines in no section, such as
// the attributes of a fragment.
func sections(text string) (out []section, loose []string) {
	var open *section
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		begin := opening.FindStringSubmatch(line)
		switch {
		case open != nil && line == "}":
			out, open = append(out, *open), nil
		case open != nil:
			open.body = append(open.body, line)
		case begin != nil && strings.HasSuffix(begin[2], "}"): // in one line
			inner := strings.TrimSpace(strings.TrimSuffix(begin[2], "}"))
			out = append(out, section{begin[1], []string{"  " + inner}})
		case begin != nil:
			open = &section{head: begin[1]}
		case strings.TrimSpace(line) != "":
			loose = append(loose, line)
		}
	}
	return out, loose
}

// foreign matches sections of other providers, which are not validated.
var foreign = regexp.MustCompile(`^(provider "|(resource|data|ephemeral) ")([a-z0-9_]+)`)

func (s section) foreign() bool {
	of := foreign.FindStringSubmatch(s.head)
	return of != nil && of[3] != "kube" && !strings.HasPrefix(of[3], "kube_")
}

// completed merges a configuration of a document into a base: a section in both is the
// document's, plus the attributes of the base that it leaves out. Each attribute of
// the base is one line.
func completed(base, snippet []section) string {
	var out []section
	for _, b := range base {
		at := slices.IndexFunc(snippet, func(s section) bool { return s.head == b.head })
		switch {
		case at < 0:
			out = append(out, b)
		case b.head != "terraform": // a terraform block is never partial
			set := map[string]bool{}
			for _, line := range snippet[at].body {
				if name := attribute.FindStringSubmatch(line); name != nil {
					set[name[1]] = true
				}
			}
			left := slices.DeleteFunc(slices.Clone(b.body), func(line string) bool {
				name := attribute.FindStringSubmatch(line)
				return name != nil && set[name[1]]
			})
			out = append(out, section{b.head, left})
		}
	}
	return render(out, snippet)
}

// render writes all sections. Sections with the same head become one.
func render(base, snippet []section) string {
	bodies := map[string][]string{}
	var heads []string
	for _, s := range slices.Concat(base, snippet) {
		if s.foreign() {
			continue
		}
		if _, there := bodies[s.head]; !there {
			heads = append(heads, s.head)
		}
		bodies[s.head] = append(bodies[s.head], s.body...)
	}
	var text strings.Builder
	for _, head := range heads {
		fmt.Fprintf(&text, "%s {\n%s\n}\n", head, strings.Join(bodies[head], "\n"))
	}
	return text.String()
}

func TestCompleted(t *testing.T) {
	base, _ := sections("terraform {\n  a = 1\n}\n\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  size = 1\n}\n")
	for name, c := range map[string]struct{ snippet, want string }{
		"nothing": {"", "terraform {\n  a = 1\n}\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  size = 1\n}\n"},
		"a part": {
			"resource \"kube_x\" \"prod\" {\n  # …\n  size = {\n    name = 2\n  }\n}\n",
			"terraform {\n  a = 1\n}\nresource \"kube_x\" \"prod\" {\n  name = \"n\"\n  # …\n" +
				"  size = {\n    name = 2\n  }\n}\n",
		},
		"in one line, beside another provider's": {
			"resource \"kube_x\" \"prod\" { name = \"m\" }\nprovider \"other\" {\n  b = 1\n}\nterraform {\n  c = 1\n}\n",
			"resource \"kube_x\" \"prod\" {\n  size = 1\n  name = \"m\"\n}\nterraform {\n  c = 1\n}\n",
		},
	} {
		snippet, loose := sections(c.snippet)
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
