package component

import (
	"slices"
	"testing"
)

func TestLeavesAreAllThatIsIssued(t *testing.T) {
	s := testReplica(t)
	var want, have []string
	for _, c := range Certificates(s) {
		want = append(want, c.Leaf.Name)
	}
	for _, k := range Kubeconfigs(s) {
		want = append(want, k.Leaf.Name)
	}
	want = append(want, "terraform-provider-kube")
	for _, leaf := range Leaves(s.CertificateNames()) {
		have = append(have, leaf.Name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("leaves %q, want %q", have, want)
	}
	s.NoAdminConf = true
	if got, want := len(s.leaves()), len(Certificates(s))+len(Kubeconfigs(s))+1; got != want || got != len(have)-1 {
		t.Errorf("%d leaves without admin.conf, want %d", got, want)
	}
}
