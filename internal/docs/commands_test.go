package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// commands are the languages of blocks with commands, and of blocks with commands
// and their output.
var commands = []string{"sh", "shell", "bash", "console"}

var (
	illustrative = regexp.MustCompile(`^illustrative(: .+)?$`)
	testName     = regexp.MustCompile(`\bTest[A-Z]\w*`)
	typed        = regexp.MustCompile(
		`(?m)^(\$ |(make|terraform|tofu|terragrunt|go|git|ssh|kubectl|systemctl|etcdctl|bin/[a-z-]+) )`)
)

// TestCommands checks that a test runs each command in the documents, that the mark
// names this test and the test exists, or that the mark says "illustrative". It also
// checks that no command is in a block without a language.
func TestCommands(t *testing.T) {
	tests := testNames(t)
	count := 0
	for _, b := range allBlocks(t) {
		if !slices.Contains(commands, b.Language) {
			if b.Language == "" && typed.MatchString(b.Text) {
				t.Errorf("%s has commands: its language must be sh, or console with their output", b)
			}
			continue
		}
		count++
		for _, problem := range markProblems(b, tests) {
			t.Errorf("%s %s", b, problem)
		}
	}
	if count == 0 {
		t.Error("found no commands: the documents are not where this test looks")
	}
}

// markProblems returns the problems of the mark of a block of commands.
func markProblems(b markdown.Block, tests map[string]bool) []string {
	if b.RunBy() == nil && !illustrative.MatchString(b.Mark) {
		return []string{`is neither marked "run by TestX" nor "illustrative", but "` + b.Mark + `"`}
	}
	var out []string
	for _, name := range testName.FindAllString(b.Mark, -1) {
		if !tests[name] {
			out = append(out, "names "+name+", which does not exist")
		}
	}
	return out
}

func TestMarkProblems(t *testing.T) {
	tests := map[string]bool{"TestA": true, "TestB": true}
	for mark, want := range map[string]int{
		"run by TestA": 0, "run by TestA, TestB": 0, "illustrative": 0, "illustrative: TestA does the same": 0,
		"": 1, "run by": 1, "run by hand": 1, "run by TestC": 1, "illustrative: TestC and TestD do the same": 2, "tested": 1,
	} {
		if got := markProblems(markdown.Block{Mark: mark}, tests); len(got) != want {
			t.Errorf("%q has the problems %q, want %d", mark, got, want)
		}
	}
}

// testNames returns the names of all tests in the checkout.
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

// TestTargets checks that each make target and each kube-lab command in the documents
// exists.
func TestTargets(t *testing.T) {
	for _, kind := range []struct{ of, file, declared, named string }{
		{"make target", "GNUmakefile", `(?m)^\.PHONY: ([a-z-]+)$`, "(?m)(?:`|^|\\$ |&& )make ([a-z][a-z-]*)"},
		{"kube-lab command", "cmd/kube-lab/main.go", `(?m)^\t\t\{"([a-z-]+)", "`, "kube-lab ([a-z][a-z-]*)"},
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
					t.Errorf("%s names the %s %q, which does not exist", file, kind.of, match[1])
				}
			}
		}
		if count == 0 {
			t.Errorf("found no %s: the documents are not where this test looks", kind.of)
		}
	}
}
