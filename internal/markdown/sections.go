package markdown

import (
	"regexp"
	"strings"
)

// Section is a top-level block of a Terraform file that "terraform fmt" has formatted.
type Section struct {
	Head string // such as: resource "kube_etcd_member" "prod"
	Body []string
}

var (
	opening  = regexp.MustCompile(`^([a-z_]+(?: "[^"]+")*) \{(.*)$`)
	importTo = regexp.MustCompile(`^ *to += (.+)$`)
)

// Name returns what the section declares: the head, and for an import its target.
func (s Section) Name() string {
	for _, line := range s.Body {
		if to := importTo.FindStringSubmatch(line); to != nil && s.Head == "import" {
			return s.Head + " " + to[1]
		}
	}
	return s.Head
}

func (s Section) String() string { return s.Head + " {\n" + strings.Join(s.Body, "\n") + "\n}\n" }

// Sections returns the sections of a text. loose are the lines in no section, such as the attributes of a fragment.
func Sections(text string) (out []Section, loose []string) {
	var open *Section
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		begin := opening.FindStringSubmatch(line)
		switch {
		case open != nil && line == "}":
			out, open = append(out, *open), nil
		case open != nil:
			open.Body = append(open.Body, line)
		case begin != nil && strings.HasSuffix(begin[2], "}"): // in one line
			inner := strings.TrimSpace(strings.TrimSuffix(begin[2], "}"))
			out = append(out, Section{begin[1], []string{"  " + inner}})
		case begin != nil:
			open = &Section{Head: begin[1]}
		case strings.TrimSpace(line) != "":
			loose = append(loose, line)
		}
	}
	return out, loose
}

// Instead returns the sections of base and then those of text. A section of text stands instead of the one in base that
// has its name. Both may have local values.
func Instead(base, text []Section) []Section {
	var out []Section
	for _, b := range base {
		replaced := false
		for _, s := range text {
			replaced = replaced || s.Name() == b.Name() && s.Head != "locals"
		}
		if !replaced {
			out = append(out, b)
		}
	}
	return append(out, text...)
}
