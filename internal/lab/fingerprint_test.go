package lab

import (
	"slices"
	"testing"
)

func TestDifferences(t *testing.T) {
	before := []string{"file /etc/hosts", "user root"}
	after := []string{"file /etc/etcd", "user root"}
	if got, want := Differences(before, after),
		[]string{"left: file /etc/etcd", "lost: file /etc/hosts"}; !slices.Equal(got, want) {
		t.Errorf("differences are %q, want %q", got, want)
	}
	if got := Differences(before, before); len(got) > 0 {
		t.Errorf("a machine differs from itself: %q", got)
	}
}
