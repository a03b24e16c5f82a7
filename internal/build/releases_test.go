package build

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// pinned returns the version of a set.
func pinned(t *testing.T, name string) *version.Version {
	t.Helper()
	text, err := Version(name)
	if err != nil {
		t.Fatal(err)
	}
	return version.MustParseSemantic(text)
}

// TestReleases checks that the sets that upgrades start from are what their names say.
func TestReleases(t *testing.T) {
	for product, minors := range map[string]int{"etcd": 1, "kubernetes": 3} {
		present := pinned(t, product)
		for n := 1; n <= minors; n++ {
			if got := pinned(t, MinorBefore(product, n)); got.Minor() != present.Minor()-uint(n) {
				t.Errorf("%s is %s, want %d minor versions before %s", MinorBefore(product, n), got, n, present)
			}
		}
		before := pinned(t, PatchBefore(product))
		if before.Minor() != present.Minor() || !before.LessThan(present) {
			t.Errorf("%s is %s, want an earlier patch release than %s", PatchBefore(product), before, present)
		}
	}
}

// TestMakefileBuildsSets checks the names that the makefile builds.
func TestMakefileBuildsSets(t *testing.T) {
	root, err := Checkout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "GNUmakefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		MinorBefore("etcd", 1), PatchBefore("etcd"),
		MinorBefore("kubernetes", 1), MinorBefore("kubernetes", 2), MinorBefore("kubernetes", 3),
	} {
		if !regexp.MustCompile(`(?m)^long-setup:.*\n\t\$\(LAB\) build .*\b` + regexp.QuoteMeta(name) + `\b`).Match(text) {
			t.Errorf("make test-long does not build %s, which its tests need", name)
		}
	}
	commands := regexp.MustCompile(`(?m)^\t@?\$\(LAB\) build ([a-z0-9. -]+)`).FindAllStringSubmatch(string(text), -1)
	if len(commands) == 0 {
		t.Error("found no builds: the makefile is not what this test expects")
	}
	for _, command := range commands {
		for _, name := range strings.Fields(command[1]) {
			if _, err := lookup(name); err != nil {
				t.Error(err)
			}
		}
	}
}
