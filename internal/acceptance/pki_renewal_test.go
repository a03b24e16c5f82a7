package acceptance

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

// renewal makes certificates due at a certain age.
const renewal = `
resource "kube_etcd_member" "this" {
  early_renewal = %[1]q
}
resource "kube_control_plane_replica" "this" {
  early_renewal = %[1]q
}
`

const (
	// leafLife is kubeadm's validity of leaf certificates.
	leafLife = 365 * 24 * time.Hour
	// dueAge is the age at which the test's certificates are due. It is long enough for the
	// apply that renews them and the plan after it.
	dueAge = 75 * time.Second
)

// TestRenewalOnMachines waits until the certificates of a member and a replica are due, and
// renews them in place with an ordinary apply. etcd and the API server reload their
// certificates. Only components that read their certificates at startup alone are restarted.
func TestRenewalOnMachines(t *testing.T) {
	w := newStory(t, "cp1")
	bare := fingerprints(t, "cp1")
	override(t, w, fmt.Sprintf(renewal, leafLife-dueAge))
	apply(t, w)
	where := map[string]string{"etcd/server": address("cp1") + ":2379", "apiserver": address("cp1") + ":6443"}
	old := map[string]*x509.Certificate{}
	for leaf, server := range where {
		old[leaf] = shown(t, server)[0]
	}
	due := time.Now().Add(dueAge) // when the youngest of them is due
	awaitFor(t, 2*dueAge, "the time did not come", func() bool { return time.Now().After(due) })
	planned := plan(t, w)
	ends := old["apiserver"].NotAfter.UTC().Format(time.DateOnly)
	expectContains(t, planned,
		"etcd/server certificate expires on "+ends+": it is due for renewal", "etcd/peer certificate expires on "+ends,
		"apiserver certificate expires on "+ends, "apiserver-etcd-client certificate expires on "+ends,
		"# "+memberAddress("cp1")+" will be updated in-place", "# "+replicaAddress("cp1")+" will be updated in-place")
	before := processes(t, "cp1")
	apply(t, w)
	expectRestarted(t, before, []string{"cp1 kube-controller-manager", "cp1 kube-scheduler"})
	for leaf, server := range where {
		await(t, server+" goes on with its old certificate", func() bool {
			return !shown(t, server)[0].Equal(old[leaf])
		})
	}
	expectHealthy(t, w, []string{"cp1"})
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1")
}
