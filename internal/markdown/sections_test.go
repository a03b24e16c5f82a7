package markdown

import (
	"strings"
	"testing"
)

func TestInstead(t *testing.T) {
	const (
		first = "locals {\n  a = 1\n}\n\nresource \"kube_x\" \"prod\" {\n  size = 1\n}\n\n" +
			"import {\n  to = kube_x.prod\n  id = \"a\"\n}\n\nimport {\n  to = kube_y.prod\n  id = \"a\"\n}\n"
		second = "locals { b = 2 }\n\nresource \"kube_x\" \"prod\" {\n  count = 1\n\n  lifecycle { a = 1 }\n}\n\n" +
			"import {\n  for_each = local.a\n  to       = kube_y.prod\n  id       = each.value\n}\n"
		want = "locals {\n  a = 1\n}\nimport {\n  to = kube_x.prod\n  id = \"a\"\n}\n" +
			"locals {\n  b = 2\n}\nresource \"kube_x\" \"prod\" {\n  count = 1\n\n  lifecycle { a = 1 }\n}\n" +
			"import {\n  for_each = local.a\n  to       = kube_y.prod\n  id       = each.value\n}\n"
	)
	base, loose := Sections(first)
	text, more := Sections(second)
	if len(loose) > 0 || len(more) > 0 {
		t.Errorf("these lines are in no section: %q, %q", loose, more)
	}
	var got strings.Builder
	for _, s := range Instead(base, text) {
		got.WriteString(s.String())
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if _, loose := Sections("size = 1\n"); len(loose) != 1 {
		t.Errorf("the attribute of a fragment is not returned: %q", loose)
	}
}
