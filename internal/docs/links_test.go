package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```")
)

// TestLinks checks that links in documents lead to files and headings that exist in
// the checkout. Guides are resolved where they are generated: docs/guides.
func TestLinks(t *testing.T) {
	dir, count := root(t), 0
	for file, text := range documents(t) {
		place := strings.Replace(file, "templates/", "docs/", 1)
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			count++
			path := filepath.Join(dir, place)
			if target != "" {
				path = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links %s, which does not exist", file, match[1])
				continue
			}
			if anchor != "" && !anchors(t, path)[anchor] {
				t.Errorf("%s links %s, and there is no such heading", file, match[1])
			}
		}
	}
	if count == 0 {
		t.Error("found no links: the documents are not where this test looks")
	}
}

// anchors returns the anchors of the headings of a document.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
		out[slug(match[1])] = true
	}
	for _, match := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(string(text), -1) {
		out[match[1]] = true // tfplugindocs' own
	}
	return out
}

// slug returns the anchor of a heading, as GitHub and the registries build it.
func slug(title string) string {
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(title), "")
	return strings.ReplaceAll(kept, " ", "-")
}

func TestSlug(t *testing.T) {
	for title, want := range map[string]string{
		"Restoring one": "restoring-one", "The benchmark, control by control": "the-benchmark-control-by-control",
		"etcd 3.5 → 3.6": "etcd-35--36", "What is `drift`?": "what-is-drift",
	} {
		if got := slug(title); got != want {
			t.Errorf("the anchor of %q is %q, want %q", title, got, want)
		}
	}
}
