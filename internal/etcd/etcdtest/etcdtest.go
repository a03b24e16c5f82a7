// Package etcdtest is what the tests of etcd's packages share.
package etcdtest

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// WantError checks that err is nil if want is "", and otherwise that it contains want.
// WantError fails the test unless err contains want, or is nil if want is "".
func WantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// Lineage returns a bundle at the generations 0, 1, … of its etcd authority.
func Lineage(t *testing.T, first *pki.Bundle, last int) []*pki.Bundle {
	t.Helper()
	out := []*pki.Bundle{first}
	for len(out) <= last {
		out = append(out, Rotated(t, out[len(out)-1], len(out)))
	}
	return out
}

// Rotated returns a bundle at another generation of its etcd authority.
func Rotated(t *testing.T, b *pki.Bundle, generation int) *pki.Bundle {
	t.Helper()
	next, err := b.Rotate(map[pki.Part]int{pki.EtcdPart: generation}, pki.Next{},
		pki.Options{ClusterName: "prod", Algorithm: pki.ECDSAP256, Validity: 24 * time.Hour * 365, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Bundle returns a new bundle.
func Bundle(t *testing.T) *pki.Bundle {
	t.Helper()
	b, err := pki.Generate(pki.Options{
		ClusterName: "prod", Algorithm: pki.ECDSAP256, Validity: 24 * time.Hour * 365,
		Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
