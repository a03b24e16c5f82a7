package etcd

import (
	"strings"
	"testing"
)

func TestDiffering(t *testing.T) {
	members := clusterOf("Lhh").Members
	if text := differing(members, []content{{4, 7}, {4, 7}, {4, 7}}); text != "" {
		t.Errorf("equal data differs: %s", text)
	}
	if text := differing(members, []content{{4, 7}, {4, 7}, {4, 8}}); !strings.Contains(text, "cp3 has hash 8") {
		t.Errorf("differing data: %q", text)
	}
}
