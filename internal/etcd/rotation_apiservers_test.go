package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// apiServers is what the provider knows of the API servers.
type apiServers struct {
	sync.Mutex
	t       *testing.T
	bundles []*pki.Bundle // by generation
	at      map[string]int
	asked   int
	then    func(asked int) // called after each request
}

func (a *apiServers) EtcdTrust(_ context.Context, address string) (pki.Trust, error) {
	a.Lock()
	defer a.Unlock()
	a.asked++
	generation, ok := a.at[address]
	if a.then != nil {
		a.then(a.asked)
	}
	if !ok {
		return pki.Trust{}, errors.New("nothing is known of it")
	}
	return trustOf(a.t, a.bundles[generation]), nil
}

// usedBy returns members whose cluster these API servers use.
func (a *apiServers) usedBy(members map[string]Spec) map[string]Spec {
	for name, s := range members {
		s.APIServers = a
		members[name] = s
	}
	return members
}

// trustOf returns the trust of an API server that runs with the files of a bundle.
func trustOf(t *testing.T, b *pki.Bundle) pki.Trust {
	t.Helper()
	pair, err := b.Issue(pki.APIServerEtcdClient(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return pki.Trust{
		Generation: b.Generation(pki.EtcdPart), Roots: b.Anchors(pki.Etcd), Certificate: pair.Certificate,
	}
}

// TestRotationWaitsForAPIServers verifies that the API servers that list themselves in the
// cluster must take part in each stage.
func TestRotationWaitsForAPIServers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	bundles := etcdtest.Lineage(t, f.bundle, 3)
	servers := &apiServers{t: t, bundles: bundles, at: map[string]int{"10.9.0.1": 0, "fd00::2": 0}}
	to := func(generation int) map[string]Spec { return servers.usedBy(at(specs, bundles[generation])) }
	f.rotate(to(1), "cp1")
	if servers.asked != 0 {
		t.Error("an API server was asked that nobody lists")
	}
	c := f.client(specs["cp1"])
	for address := range servers.at {
		if err := c.put("cp1", client.MasterLeases+address, "lease"); err != nil {
			t.Fatal(err)
		}
	}
	f.refused(to(2), []string{"cp1"}, "the API server at 10.9.0.1 is still at generation 0", "fd00::2",
		"set rotation.etcd back to 1")
	servers.at = map[string]int{"10.9.0.1": 1}
	f.refused(to(2), []string{"cp1"},
		"it cannot be determined which etcd CA the API server at fd00::2 trusts: nothing is known", "15 s")
	servers.then = func(asked int) { // the other one follows during the wait
		if asked%2 == 0 {
			servers.at["fd00::2"] = 1
		}
	}
	f.rotate(to(2), "cp1")
	asked := servers.asked
	f.rotate(to(2), "cp1")
	if servers.asked != asked {
		t.Error("API servers were asked although nothing changes")
	}
}

// TestRotationWaitsForAPIServersOfAnotherPrefix verifies that API servers whose --etcd-prefix is not /registry take
// part in each stage, and that nothing goes on if it is not known whether there are any.
func TestRotationWaitsForAPIServersOfAnotherPrefix(t *testing.T) {
	t.Parallel()
	f := newSmallFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	bundles := etcdtest.Lineage(t, f.bundle, 2)
	servers := &apiServers{t: t, bundles: bundles, at: map[string]int{"10.9.0.1": 0}}
	to := func(generation int) map[string]Spec { return servers.usedBy(at(specs, bundles[generation])) }
	f.rotate(to(1), "cp1")
	c := f.client(specs["cp1"])
	put := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if err := c.put("cp1", key, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("/prod/k8s/masterleases/10.9.0.1", "/prod/k8s/namespaces/default")
	f.refused(to(2), []string{"cp1"}, "the API server at 10.9.0.1 is still at generation 0", "set rotation.etcd back to 1")
	servers.at["10.9.0.1"] = 1
	for i := range 26 { // two requests for each directory
		err := c.try("cp1", func(ctx context.Context, member *clientv3.Client) error {
			var puts []clientv3.Op
			for k := range 100 {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("/app/%02d%02d/key", i, k), ""))
			}
			_, err := member.Txn(ctx).Then(puts...).Commit()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.refused(to(2), []string{"cp1"}, "it cannot be determined which etcd CA the API servers trust",
		"too many directories of other programs", "store what other programs keep in this etcd elsewhere")
	err := c.try("cp1", func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Delete(ctx, "/app/0", clientv3.WithPrefix())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.rotate(to(2), "cp1")
}
