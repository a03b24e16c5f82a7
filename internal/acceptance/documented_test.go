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
	file := path.Join("templates", "guides", guide+".md")
	blocks := slices.DeleteFunc(blocksRunBy(t, rootName(t)), func(b markdown.Block) bool { return b.File != file })
	if n >= len(blocks) {
		t.Fatalf("%s has %d blocks that %s runs", file, len(blocks), rootName(t))
	}
	documentedRuns.Lock()
	defer documentedRuns.Unlock()
	documentedRuns.numbered = append(documentedRuns.numbered, blocks[n].String())
	return fmt.Sprintf("#block=%d\n%s", len(documentedRuns.numbered)-1, blocks[n].Text)
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
			if !t.Failed() && !slices.Contains(documentedRuns.byTest[t.Name()], b.String()) {
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
