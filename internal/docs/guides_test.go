package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// groups are the groups of guides in the navigation of the registries.
var groups = []string{"Start", "Day 2", "Security", "Fleets"}

// TestGuides checks that every guide is in a group, first says when to read it, and is
// linked from the README and from the index.
func TestGuides(t *testing.T) {
	all, count := documents(t), 0
	group := regexp.MustCompile(`(?m)^subcategory: "(.+)"$`)
	opening := regexp.MustCompile(`(?m)\A---\n(?:.+\n)+---\n\n# .+\n\nRead this guide `)
	for file, text := range all {
		name, ok := strings.CutPrefix(file, "templates/guides/")
		if !ok {
			continue
		}
		count++
		if of := group.FindStringSubmatch(text); of == nil || !slices.Contains(groups, of[1]) {
			t.Errorf("%s is in none of the groups %q", file, groups)
		}
		if !opening.MatchString(text) {
			t.Errorf(`%s does not begin with a title and "Read this guide …"`, file)
		}
		for _, index := range []string{"README.md", "templates/index.md.tmpl"} {
			if !strings.Contains(all[index], "guides/"+name) {
				t.Errorf("%s does not link %s", index, file)
			}
		}
	}
	if count == 0 {
		t.Error("found no guides: they are not where this test looks")
	}
}
