package acceptance

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// documentedRuns records which blocks of the documents each test has run. A script that was made of a block has its
// number in a comment, so that it is recorded where commands are run.
var documentedRuns = struct {
	sync.Mutex
	numbered []string // by their numbers
	byTest   map[string][]string
}{byTest: map[string][]string{}}

// configurationLanguages are those of blocks that are no commands.
var configurationLanguages = []string{"hcl", "terraform"}

// blockNumber matches the comment of a script that was made of a block.
var blockNumber = regexp.MustCompile(`(?m)^#block=(\d+)$`)

// recordBlocks records the blocks of a script that the test has run, all of it without an error.
func recordBlocks(t *testing.T, script string) {
	t.Helper()
	documentedRuns.Lock()
	defer documentedRuns.Unlock()
	for _, match := range blockNumber.FindAllStringSubmatch(script, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil || n >= len(documentedRuns.numbered) {
			t.Fatalf("no block has the number %s", match[1])
		}
		documentedRuns.byTest[rootName(t)] = append(documentedRuns.byTest[rootName(t)], documentedRuns.numbered[n])
	}
}

// documentedScript returns the n-th block of commands in a guide that is marked as run by this
// test. The test replaces names and addresses, and runs the rest as it is written.
func documentedScript(t *testing.T, guide string, n int) string {
	t.Helper()
	blocks := slices.DeleteFunc(guideBlocksRunBy(t, guide), isConfiguration)
	if n >= len(blocks) {
		t.Fatalf("the guide %s has %d blocks of commands that %s runs", guide, len(blocks), rootName(t))
	}
	documentedRuns.Lock()
	defer documentedRuns.Unlock()
	documentedRuns.numbered = append(documentedRuns.numbered, blocks[n].String())
	return fmt.Sprintf("#block=%d\n%s", len(documentedRuns.numbered)-1, blocks[n].Text)
}

// documentedConfigurations returns the blocks of configuration in a guide that are marked as run by this test, and
// records that the test applies them. The test replaces names, addresses and versions.
func documentedConfigurations(t *testing.T, guide string) []string {
	t.Helper()
	var out []string
	for _, b := range guideBlocksRunBy(t, guide) {
		if isConfiguration(b) {
			recordRun(t, b)
			out = append(out, b.Text)
		}
	}
	if len(out) == 0 {
		t.Fatalf("the guide %s has no configuration that %s applies", guide, rootName(t))
	}
	return out
}

func isConfiguration(b markdown.Block) bool {
	return slices.Contains(configurationLanguages, b.Language)
}

// guideBlocksRunBy returns the blocks of a guide whose mark names this test.
func guideBlocksRunBy(t *testing.T, guide string) []markdown.Block {
	t.Helper()
	file := path.Join("templates", "guides", guide+".md")
	return slices.DeleteFunc(blocksRunBy(t, rootName(t)), func(b markdown.Block) bool { return b.File != file })
}

func recordRun(t *testing.T, b markdown.Block) {
	t.Helper()
	documentedRuns.Lock()
	defer documentedRuns.Unlock()
	documentedRuns.byTest[rootName(t)] = append(documentedRuns.byTest[rootName(t)], b.String())
}

// replaced returns the text of a guide with pairs of replacements, each a text of the guide and what stands instead.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the guide has no %q, which the test replaces:\n%s", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// typedIn returns the commands of a block of the language console, with the comment that says which block it is, and
// their output as the guide shows it.
func typedIn(console string) (commands, output string) {
	for line := range strings.Lines(console) {
		if command, ok := strings.CutPrefix(line, "$ "); ok || blockNumber.MatchString(line) {
			commands += command
		} else {
			output += line
		}
	}
	return commands, output
}

func TestTypedIn(t *testing.T) {
	commands, output := typedIn("#block=7\n$ a -b\nc $ d\n$ e\n")
	if commands != "#block=7\na -b\ne\n" || output != "c $ d\n" {
		t.Errorf("commands are %q, the output is %q", commands, output)
	}
}

// expectDocumentedRuns fails the test at its end if it has not run all blocks whose mark names
// it.
func expectDocumentedRuns(t *testing.T) {
	t.Helper()
	if strings.Contains(t.Name(), "/") {
		return
	}
	blocks := blocksRunBy(t, t.Name())
	t.Cleanup(func() {
		documentedRuns.Lock()
		defer documentedRuns.Unlock()
		for _, b := range blocks {
			if !t.Failed() && !t.Skipped() && !slices.Contains(documentedRuns.byTest[t.Name()], b.String()) {
				t.Errorf("%s is marked as run by %s, which has not run it", b, t.Name())
			}
		}
	})
}

// blocksRunBy returns the blocks whose mark names a test.
func blocksRunBy(t *testing.T, test string) []markdown.Block {
	t.Helper()
	return documentedBlocks(t, func(b markdown.Block) bool { return slices.Contains(b.RunBy(), test) })
}

// documentedBlocks returns the blocks of the documents that are wanted.
func documentedBlocks(t *testing.T, wanted func(markdown.Block) bool) []markdown.Block {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := markdown.AllBlocks(root)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(blocks, func(b markdown.Block) bool { return !wanted(b) })
}

// rootName returns the name of the test without those of its subtests.
func rootName(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// TestBlocksAreRecordedWhenRun: a block that was only read from its document has not been run.
func TestBlocksAreRecordedWhenRun(t *testing.T) {
	documentedRuns.Lock()
	documentedRuns.numbered = append(documentedRuns.numbered, "guide.md:7", "guide.md:9")
	n := len(documentedRuns.numbered)
	documentedRuns.Unlock()
	recordBlocks(t, fmt.Sprintf("cd /root\n#block=%d\necho '#block=%d'\n", n-1, n-2))
	documentedRuns.Lock()
	defer documentedRuns.Unlock()
	if got := documentedRuns.byTest[t.Name()]; !slices.Equal(got, []string{"guide.md:9"}) {
		t.Errorf("recorded are %q", got)
	}
}
