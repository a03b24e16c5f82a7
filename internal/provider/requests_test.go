package provider

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

var sharedBundle = sync.OnceValues(func() (*pki.Bundle, error) {
	return pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
})

// bundles returns a bundle with all keys, and the same bundle without the keys of the etcd and
// front-proxy authorities.
func bundles(t *testing.T) (here, elsewhere *pki.Bundle) {
	t.Helper()
	here, err := sharedBundle()
	if err != nil {
		t.Fatal(err)
	}
	copied := *here
	copied.EtcdCA.PrivateKey, copied.FrontProxyCA.PrivateKey = "", ""
	return here, &copied
}

func replicaNames() pki.APIServerNames {
	return pki.APIServerNames{
		NodeName: "cp1", ClusterDomain: "cluster.local", ServiceIPs: component.ServiceIPs([]string{"10.96.0.0/12"}),
		Advertise: "10.0.0.11", Endpoint: "10.0.0.100",
	}
}

// TestRequestsFor checks that requests are made for what the bundle cannot sign itself.
func TestRequestsFor(t *testing.T) {
	here, elsewhere := bundles(t)
	leaves := append(machine.Leaves("cp1", "10.0.0.11"), component.Leaves(replicaNames())...)
	none, err := requestsFor(here, leaves)
	if err != nil || len(none) != 0 {
		t.Errorf("with all keys %d are requested: %v", len(none), err)
	}
	some, err := requestsFor(elsewhere, leaves)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"apiserver-etcd-client", "etcd/healthcheck-client", "etcd/peer", "etcd/server", "front-proxy-client"}
	if got := slices.Sorted(maps.Keys(some)); !slices.Equal(got, want) {
		t.Errorf("requested are %q, want %q", got, want)
	}
	server := some["etcd/server"]
	if server.Usages.String() != `["server auth","client auth"]` ||
		server.IPAddresses.String() != `["10.0.0.11","127.0.0.1","::1"]` {
		t.Errorf("etcd/server is for %s and %s", server.Usages, server.IPAddresses)
	}
	external := *elsewhere
	external.CA.PrivateKey = ""
	admin, other := pki.User("kubernetes-admin", "kubeadm:cluster-admins"), pki.User("kubernetes-admin", "system:masters")
	if _, err := requestsFor(&external, []pki.Leaf{admin, admin}); err != nil {
		t.Errorf("the same twice: %v", err)
	}
	if _, err := requestsFor(&external, []pki.Leaf{admin, other}); err == nil ||
		!strings.Contains(err.Error(), "two different certificates") {
		t.Errorf("two of one name: %v", err)
	}
}

// TestKeeping checks that a request stays until its contents or its signer change.
func TestKeeping(t *testing.T) {
	_, elsewhere := bundles(t)
	made := func(address string, b *pki.Bundle) requests {
		wanted, err := requestsFor(b, machine.Leaves("cp1", address))
		if err != nil {
			t.Fatal(err)
		}
		return wanted
	}
	have := made("10.0.0.11", elsewhere)
	for name, request := range have {
		request.Request = types.StringValue("request of " + name)
		have[name] = request
	}
	next, err := pki.Generate(pki.Options{ClusterName: "next", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	rotated := *elsewhere
	rotated.EtcdCA = pki.KeyPair{Certificate: next.EtcdCA.Certificate}
	inHand := rotated
	inHand.EtcdCA = next.EtcdCA
	for name, test := range map[string]struct {
		wanted  requests
		kept    []string
		changes bool
	}{
		"nothing": {
			made("10.0.0.11", elsewhere),
			[]string{"etcd/healthcheck-client", "etcd/peer", "etcd/server"},
			false,
		},
		"another address":    {made("10.0.0.12", elsewhere), []string{"etcd/healthcheck-client"}, true},
		"another authority":  {made("10.0.0.11", &rotated), nil, true},
		"a key in the hands": {made("10.0.0.11", &inHand), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			after, changes := test.wanted.keeping(have)
			var kept []string
			for _, name := range slices.Sorted(maps.Keys(after)) {
				if after[name].Request.ValueString() == "request of "+name {
					kept = append(kept, name)
				}
			}
			if !slices.Equal(kept, test.kept) || changes != test.changes || len(after) != len(test.wanted) {
				t.Errorf("kept %q of %d, changes %t", kept, len(after), changes)
			}
		})
	}
}

// TestKeys checks that keys are decoded unchanged, and that only recipients can read them.
func TestKeys(t *testing.T) {
	seal := newTestSeal(t)
	keys := map[string]string{"etcd/server": "one secret", "etcd/peer": "another secret"}
	for _, s := range []*pki.Seal{nil, seal} {
		text, err := closeKeys(keys, s)
		if err != nil {
			t.Fatal(err)
		}
		if s != nil && strings.Contains(text, "secret") {
			t.Error("a sealed key can be read")
		}
		if got, err := openKeys(text, s); err != nil || !maps.Equal(got, keys) {
			t.Errorf("opened %v: %v", got, err)
		}
	}
	sealed, err := closeKeys(keys, seal)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{sealed, "", "null", `["secret"]`, `{"etcd/server": 1}`} {
		if _, err := openKeys(text, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("opened without a seal: %v", err)
		}
	}
}

func newTestSeal(t *testing.T) *pki.Seal {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := pki.NewSeal([]string{identity.String()}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// TestWithLease: the certificate of kube-vip is needed only by a replica whose endpoint has a Lease.
func TestWithLease(t *testing.T) {
	if leaves := withLease(nil, "cp1", ""); len(leaves) > 0 {
		t.Errorf("without a Lease: %+v", leaves)
	}
	leaves := withLease(nil, "cp1", "kube-vip-10.0.0.100")
	if len(leaves) != 1 || leaves[0].CommonName != "kube-vip:cp1" || leaves[0].Organizations[0] != "kube-vip-10.0.0.100" {
		t.Errorf("with a Lease: %+v", leaves)
	}
}

// TestExtraSANs: what cannot be in a certificate is refused before anything is created.
func TestExtraSANs(t *testing.T) {
	for san, want := range map[string]string{
		"api.example.com": "", "*.example.com": "", "10.0.0.30": "", "fd00::30": "", "": "host name is empty",
		"api.example.com:6443": "neither a host name nor an IP address", "10.0.0.300": "looks like an IP address",
		"https://api.example.com": "neither a host name nor an IP address",
	} {
		replica := map[string]any{
			"name": "cp1", "host": map[string]any{"address": "10.0.0.11"}, "pki": "p", "version": "1.36.3",
			"etcd": []string{"https://10.0.0.11:2379"}, "extra_sans": []string{san},
			"endpoint": map[string]any{
				"address": "10.0.0.100", "port": 6443, "hosts": map[string]any{"cp1": "10.0.0.11"}, "drain_timeout": "10s",
				"verify_ca": true,
			},
		}
		requests := map[string]any{"pki": "p", "replica": map[string]any{
			"name": "cp1", "address": "10.0.0.11", "endpoint": "10.0.0.100", "extra_sans": []string{san},
		}}
		for kind, config := range map[string]map[string]any{
			"kube_control_plane_replica": replica, "kube_certificate_requests": requests,
		} {
			if got := validated(t, kind, config); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s with %q: %q, want %q", kind, san, got, want)
			}
		}
	}
}
