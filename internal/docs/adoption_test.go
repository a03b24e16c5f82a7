package docs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
)

// TestAdoptionIsComplete checks that the guide about adoption shows whole configurations: the blocks that one test
// applies are valid with nothing else than a provider. A resource or an import of a later block stands instead of the
// earlier one with its name.
func TestAdoptionIsComplete(t *testing.T) {
	base, err := os.ReadFile(filepath.Join("testdata", "base.tf"))
	if err != nil {
		t.Fatal(err)
	}
	settings, _ := markdown.Sections(string(base))
	settings = slices.DeleteFunc(settings, func(s markdown.Section) bool {
		return s.Head != "terraform" && s.Head != `provider "kube"`
	})
	blocks := slices.DeleteFunc(configurations(t), func(b markdown.Block) bool {
		return b.File != "templates/guides/adopt-kubeadm.md" || b.RunBy() == nil
	})
	if len(blocks) == 0 {
		t.Fatal("the guide has no configuration that a test applies")
	}
	cli := newCLI(t)
	for _, test := range blocks[0].RunBy() {
		var all []markdown.Section
		for _, b := range blocks {
			if slices.Contains(b.RunBy(), test) {
				all = markdown.Instead(all, sectionsOf(t, b))
			}
		}
		t.Run(test, func(t *testing.T) { cli.expectValid(t, render(settings, all)) })
	}
}
