// Package docs tests the documents: commands, configurations, messages, targets
// and links. It contains only tests. CONTRIBUTING.md describes the marks of blocks.
package docs

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// root returns the directory of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// documents returns the Markdown files that people write, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out, err := markdown.Documents(root(t))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// allBlocks returns the blocks of every document.
func allBlocks(t *testing.T) []markdown.Block {
	t.Helper()
	out, err := markdown.AllBlocks(root(t))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
