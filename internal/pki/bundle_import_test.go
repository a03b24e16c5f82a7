package pki

import (
	"strings"
	"testing"
	"time"
)

// TestBundleFromMachine: authorities with another lifetime, key algorithms that no bundle has, and
// missing keys.
func TestBundleFromMachine(t *testing.T) {
	b, err := Generate(Options{ClusterName: "prod", Validity: 1234 * time.Hour, Algorithm: ECDSAP384, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	observed := MachineFiles{
		ClusterName: "prod",
		Authorities: map[Authority]KeyPair{
			Kubernetes: b.CA, Etcd: {Certificate: b.EtcdCA.Certificate},
			FrontProxy: b.FrontProxyCA,
		},
		ServiceAccountKey: b.ServiceAccount.PrivateKey,
		Generations:       map[Part]int{EtcdPart: 6},
		Leaf:              b.CA.Certificate,
	}
	got, err := FromMachine(observed)
	if err != nil {
		t.Fatal(err)
	}
	if got.Validity() != 1234*time.Hour || got.Algorithm != ECDSAP384 || got.Generation(EtcdPart) != 6 ||
		len(got.Externals()) != 1 || !got.External(Etcd) {
		t.Errorf("salvaged %v: validity %s, algorithm %s, generation %d, external %v", got, got.Validity(), got.Algorithm,
			got.Generation(EtcdPart), got.Externals())
	}
	for name, c := range map[string]struct {
		change  func(*MachineFiles)
		wantErr string
	}{
		"in a rotation": {func(f *MachineFiles) { f.Generations = map[Part]int{KubernetesPart: 2} }, "is under way"},
		"no authority":  {func(f *MachineFiles) { f.Authorities = nil }, "authority kubernetes"},
		"no account":    {func(f *MachineFiles) { f.ServiceAccountKey = "" }, "service account"},
		"one key for two": {func(f *MachineFiles) {
			f.Authorities = map[Authority]KeyPair{Kubernetes: b.CA, Etcd: b.CA, FrontProxy: b.FrontProxyCA}
		}, "same key"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := observed
			c.change(&broken)
			if _, err := FromMachine(broken); err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("error is %v, want one that says %q", err, c.wantErr)
			}
		})
	}
}
