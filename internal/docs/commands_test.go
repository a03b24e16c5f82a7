package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commands are the languages of blocks to be typed, and of those that show what
// came of it.
var commands = []string{"sh", "shell", "bash", "console"}

var (
	runBy        = regexp.MustCompile(`^run by Test\w+(, Test\w+)*$`)
	illustrative = regexp.MustCompile(`^illustrative(: .+)?$`)
	testName     = regexp.MustCompile(`\bTest[A-Z]\w*`)
	typed        = regexp.MustCompile(`(?m)^(\$ |(make|terraform|tofu|terragrunt|go|git|ssh|kubectl|systemctl|etcdctl|bin/[a-z-]+) )`)
)

// TestCommands holds that each command of the documents is run by a test, which
// is named before it and is there, or is said to be an illustration; and that no
// command stands in a block that is not marked as one.
func TestCommands(t *testing.T) {
	tests := testNames(t)
	count := 0
	for _, b := range allBlocks(t) {
		if !slices.Contains(commands, b.language) {
			if b.language == "" && typed.MatchString(b.text) {
				t.Errorf("%s has commands: its language is to be sh, or console with what came of them", b)
			}
			continue
		}
		count++
		for _, fault := range faultsOf(b, tests) {
			t.Errorf("%s %s", b, fault)
		}
	}
	if count == 0 {
		t.Error("there are no commands at all: the documents are not where this test looks")
	}
}

// faultsOf is what is wrong with the mark of a block of commands.
func faultsOf(b block, tests map[string]bool) []string {
	if !runBy.MatchString(b.mark) && !illustrative.MatchString(b.mark) {
		return []string{`is neither marked "run by TestX" nor "illustrative", but "` + b.mark + `"`}
	}
	var out []string
	for _, name := range testName.FindAllString(b.mark, -1) {
		if !tests[name] {
			out = append(out, "names "+name+", which is not there")
		}
	}
	return out
}

func TestFaultsOf(t *testing.T) {
	tests := map[string]bool{"TestA": true, "TestB": true}
	for mark, want := range map[string]int{
		"run by TestA": 0, "run by TestA, TestB": 0, "illustrative": 0, "illustrative: TestA does the same": 0,
		"": 1, "run by": 1, "run by hand": 1, "run by TestC": 1, "illustrative: TestC and TestD do the same": 2, "tested": 1,
	} {
		if got := faultsOf(block{mark: mark}, tests); len(got) != want {
			t.Errorf("%q has the faults %q, want %d", mark, got, want)
		}
	}
}

// testNames are the tests of the checkout.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	out := map[string]bool{}
	dir := filepath.Join(root(t), "internal")
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			out[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTargets holds that each target of make and each command of kube-lab that
// the documents name is there.
func TestTargets(t *testing.T) {
	for _, kind := range []struct{ of, file, declared, named string }{
		{"target of make", "GNUmakefile", `(?m)^\.PHONY: ([a-z-]+)$`, "(?m)(?:`|^|\\$ |&& )make ([a-z][a-z-]*)"},
		{"command of kube-lab", "cmd/kube-lab/main.go", `(?m)^\t\t\{"([a-z-]+)", "`, "kube-lab ([a-z][a-z-]*)"},
	} {
		source, err := os.ReadFile(filepath.Join(root(t), kind.file))
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, match := range regexp.MustCompile(kind.declared).FindAllStringSubmatch(string(source), -1) {
			there[match[1]] = true
		}
		named := regexp.MustCompile(kind.named)
		count := 0
		for file, text := range documents(t) {
			for _, match := range named.FindAllStringSubmatch(text, -1) {
				count++
				if !there[match[1]] {
					t.Errorf("%s names the %s %q, which is not there", file, kind.of, match[1])
				}
			}
		}
		if count == 0 {
			t.Errorf("no %s is named: the documents are not where this test looks", kind.of)
		}
	}
}
