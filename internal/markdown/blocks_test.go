package markdown

import (
	"slices"
	"testing"
)

func TestBlocks(t *testing.T) {
	const text = "# Title\n\n<!-- illustrative -->\n```sh\nmake\n```\n\n1. A step:\n\n   ```hcl\n   a = {\n     b = 1\n " +
		"  }\n   ```\n\n<!-- far -->\n\n```\nplain\n```\n"
	got := Blocks("x.md", text)
	want := []Block{
		{"x.md", 4, "sh", "illustrative", "make\n"},
		{"x.md", 10, "hcl", "", "a = {\n  b = 1\n}\n"},
		{"x.md", 18, "", "", "plain\n"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the blocks are %+v, want %+v", got, want)
	}
}

func TestRunBy(t *testing.T) {
	for mark, want := range map[string][]string{
		"run by TestA": {"TestA"}, "run by TestA, TestB": {"TestA", "TestB"}, "illustrative: TestA does the same": nil,
		"run by hand": nil, "": nil,
	} {
		if got := (Block{Mark: mark}).RunBy(); !slices.Equal(got, want) {
			t.Errorf("%q is run by %q, want %q", mark, got, want)
		}
	}
}
