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
	s.EndpointLease, s.LeaseHolders = "plndr-cp-lock", "kube-vip-10.0.0.100"
	if got, want := len(s.leaves()), len(Certificates(s))+len(Kubeconfigs(s))+1; got != want || got != len(have) {
		t.Errorf("%d leaves with the Lease of an endpoint, want %d", got, want)
	}
}

// TestLeaseHolder: only a replica whose endpoint has a Lease has a kubeconfig for it, to its own API server, and
// another one has no such file left.
func TestLeaseHolder(t *testing.T) {
	s := testReplica(t)
	named := func(s Replica) []Kubeconfig {
		return slices.DeleteFunc(Kubeconfigs(s), func(k Kubeconfig) bool { return k.Path != LeaseConf })
	}
	if len(named(s)) > 0 || !slices.Contains(UnwantedFiles(s), LeaseConf) {
		t.Errorf("without a Lease: %+v, not wanted are %q", named(s), UnwantedFiles(s))
	}
	s.EndpointLease, s.LeaseHolders = "plndr-cp-lock", "kube-vip-10.0.0.100"
	got := named(s)
	if len(got) != 1 || slices.Contains(UnwantedFiles(s), LeaseConf) {
		t.Fatalf("with a Lease: %+v, not wanted are %q", got, UnwantedFiles(s))
	}
	leaf := got[0].Leaf
	if leaf.CommonName != "kube-vip:"+s.Name || !slices.Equal(leaf.Organizations, []string{s.LeaseHolders}) ||
		got[0].Owner != "root" || got[0].Server != s.LocalURL() {
		t.Errorf("the kubeconfig is %+v", got[0])
	}
}
