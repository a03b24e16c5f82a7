package provider

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// standInEndpoint is an endpoint whose deletion is a function.
type standInEndpoint struct {
	endpointSpec
	delete func(superseded endpoint.Superseded) error
}

func (standInEndpoint) address() string { return "10.0.0.100" }

func (e standInEndpoint) remove(
	_ context.Context, _ time.Duration, superseded endpoint.Superseded, _ func(string),
) error {
	return e.delete(superseded)
}

// TestSupersededEndpoint: the Create of a renamed resource claims the endpoint before or while the old resource deletes
// it. The Delete ends without an error, so that the state has the endpoint once.
func TestSupersededEndpoint(t *testing.T) {
	inUse := errors.New("replicas are still in its rotation")
	const id = "an endpoint"
	for _, test := range []struct {
		name           string
		before, during bool // when the Create claims it
		want           error
		asked          bool
	}{
		{"before", true, false, nil, false},
		{"during", false, true, nil, true},
		{"never", false, false, inUse, true},
	} {
		var a adoptions
		if test.before {
			a.record(id)
		}
		asked := false
		kind := standInEndpoint{delete: func(superseded endpoint.Superseded) error {
			asked = true
			if test.during {
				a.record(id)
			}
			if err := superseded.Err(); err != nil {
				return err
			}
			return inUse
		}}
		var diags diag.Diagnostics
		err := (&endpointResource{}).deleteFrom(t.Context(), kind, a.superseded(id), &diags)
		if !errors.Is(err, test.want) || asked != test.asked || diags.HasError() {
			t.Errorf("%s: asked %t, %v %v", test.name, asked, err, diags)
		}
	}
}

// TestSameEndpoint: the Create of a resource that was renamed and has other hosts is that of the same endpoint, if it
// shares a host: its records name the hosts that leave. Without one, the Delete must remove the address. Two kinds may
// have the same address while one takes over.
func TestSameEndpoint(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pool: pool}
	balancers := func(cluster, address string, hosts ...string) endpointSpec {
		machines := map[string]string{}
		for _, at := range hosts {
			machines[at] = at
		}
		return haproxyEndpoint{Spec: haproxy.Spec{ClusterID: cluster, Address: address, Hosts: s.machines(machines)}}
	}
	others := func(cluster, target string) endpointSpec {
		return newExternalEndpoint(nil, external.Spec{
			ClusterID: cluster, Address: "10.0.0.100", Targets: map[string]string{"cp1": target},
		})
	}
	before := balancers("a", "10.0.0.100", "10.0.0.11", "10.0.0.12")
	for name, c := range map[string]struct {
		deleted, created endpointSpec
		want             bool
	}{
		"the same":             {before, balancers("a", "10.0.0.100", "10.0.0.11", "10.0.0.12"), true},
		"more hosts":           {before, balancers("a", "10.0.0.100", "10.0.0.11", "10.0.0.12", "10.0.0.13"), true},
		"fewer hosts":          {before, balancers("a", "10.0.0.100", "10.0.0.12"), true},
		"another host":         {before, balancers("a", "10.0.0.100", "10.0.0.12", "10.0.0.13"), true},
		"no host in common":    {before, balancers("a", "10.0.0.100", "10.0.0.13"), false},
		"another address":      {before, balancers("a", "10.0.0.101", "10.0.0.11", "10.0.0.12"), false},
		"another cluster":      {before, balancers("b", "10.0.0.100", "10.0.0.11", "10.0.0.12"), false},
		"another kind":         {before, others("a", "10.0.0.11"), false},
		"other targets":        {others("a", "10.0.0.11"), others("a", "10.0.0.12"), true},
		"targets of a cluster": {others("a", "10.0.0.11"), others("b", "10.0.0.11"), false},
	} {
		var a adoptions
		r := &endpointResource{}
		a.record(r.identities(c.created)...)
		if got := a.superseded(r.identities(c.deleted)...)(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAdoptedKinds: the Create of each resource on machines knows the error after which it leaves no state.
func TestAdoptedKinds(t *testing.T) {
	for _, r := range []any{newEtcdMemberResource(), newReplicaResource(), newEndpointResource()} {
		var adopted error
		switch r := r.(type) {
		case *etcdMemberResource:
			adopted = r.adopted
		case *replicaResource:
			adopted = r.adopted
		case *endpointResource:
			adopted = r.adopted
		}
		if adopted == nil {
			t.Errorf("%T: a failed Create of what is in use taints it", r)
		}
	}
}
