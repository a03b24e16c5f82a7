package provider

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestRegistrarOfARecord: whatever cluster a machine's record names or leaves out, it leads to endpoints of the
// machine's own cluster only.
func TestRegistrarOfARecord(t *testing.T) {
	bundle := &pki.Bundle{ClusterID: strings.Repeat("0a", 16), ClusterName: "prod"}
	s := &session{registrars: registrars{external: external.New(targets.NewObserver(nil, nil)), hooks: &sync.Map{}}}
	at := func(address, cluster string) endpoint.Registration {
		return endpoint.Registration{
			Kind: endpoint.External, Address: address, Port: 6443, TargetPort: 6443, ClusterID: cluster,
			DetectionTime: time.Second, Hosts: map[string]string{"cp1": "10.0.0.11"},
		}
	}
	for cluster, refused := range map[string]bool{
		bundle.ClusterID: false, "": false, strings.Repeat("f", 32): true,
	} {
		recorded := at("api.example.com", cluster)
		recorded.Additional = []endpoint.Registration{at("api.example.org", cluster)}
		r, err := s.registrar(controlplane.Recorded{Name: "cp1", Registration: registrationText(recorded)}, bundle)
		if refused {
			if err == nil {
				t.Errorf("a record of the cluster %q is believed", cluster)
			}
			continue
		}
		both, ok := r.(*combined.Registrar)
		if err != nil || !ok || len(both.Endpoints) != 2 {
			t.Fatalf("a record of the cluster %q: %+v, %v", cluster, r, err)
		}
		for _, each := range both.Endpoints {
			if one, ok := each.Registrar.(*external.Registrar); !ok || one.ClusterID != bundle.ClusterID {
				t.Errorf("a record of the cluster %q leads to %+v", cluster, each.Registrar)
			}
		}
	}
}

// TestRegistrarOfAMovingReplica: a record that names endpoints which the replica leaves leads to those, and to the ones
// at which it was to be registered. Both are believed about the machine's own cluster only.
func TestRegistrarOfAMovingReplica(t *testing.T) {
	bundle := &pki.Bundle{ClusterID: strings.Repeat("0a", 16), ClusterName: "prod"}
	s := &session{registrars: registrars{external: external.New(targets.NewObserver(nil, nil)), hooks: &sync.Map{}}}
	at := func(address, cluster string) json.RawMessage {
		return registrationText(endpoint.Registration{
			Kind: endpoint.External, Address: address, Port: 6443, TargetPort: 6443, ClusterID: cluster,
			DetectionTime: time.Second, Hosts: map[string]string{"cp1": "10.0.0.11"},
		})
	}
	recorded := controlplane.Recorded{
		Name: "cp1", Registration: at("new.example.com", bundle.ClusterID), Leaves: at("old.example.com", bundle.ClusterID),
	}
	r, err := s.registrar(recorded, bundle)
	both, ok := r.(*combined.Registrar)
	if err != nil || !ok || len(both.Endpoints) != 1 || len(both.Left) != 1 || both.Replica != "cp1" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if at := both.Endpoints[0].ID; at != "external old.example.com" {
		t.Errorf("it returns to %s", at)
	}
	if left := both.Left[0]; left.ID != "external new.example.com" || !left.Expected {
		t.Errorf("it leaves %+v", left)
	}
	for name, leaves := range map[string]json.RawMessage{
		"another cluster": at("old.example.com", strings.Repeat("f", 32)), "no registration": json.RawMessage(`{"kind": 1}`),
	} {
		recorded.Leaves = leaves
		if r, err := s.registrar(recorded, bundle); err == nil {
			t.Errorf("%s is believed: %+v", name, r)
		}
	}
}

// TestEndpointsOfAMovingReplica: until a replica is registered at the endpoints that it moves to, it counts at those
// that it leaves too, of whatever kind they are. The next one to serve there would be nobody otherwise.
func TestEndpointsOfAMovingReplica(t *testing.T) {
	at := func(kind endpoint.Kind, address string) json.RawMessage {
		r := endpoint.Registration{
			Kind: kind, Address: address, Port: 6443, TargetPort: 6443, ClusterID: "a", DetectionTime: time.Second,
			Hosts: map[string]string{"cp1": "10.0.0.11"},
		}
		if kind == endpoint.HAProxy {
			r.TargetPort, r.DetectionTime = 0, 0
		}
		return registrationText(r)
	}
	name := endpoint.Registration{
		Kind: endpoint.DNS, Address: "api.example.com", Port: 6443, TargetPort: 6443, ClusterID: "a",
		Hosts: map[string]string{"cp1": "10.0.0.11"},
		Zone: &endpoint.Zone{
			Name: "example.com", Server: "10.0.0.53:53", TTL: time.Second, TSIGKey: "key", CheckInterval: time.Second,
			CheckThreshold: 3,
		},
	}
	other := name
	other.Address = "api2.example.com"
	outside, balancer := at(endpoint.External, "10.0.0.101"), at(endpoint.HAProxy, "10.0.0.100")
	for _, c := range []struct {
		name               string
		registered, leaves json.RawMessage
		want               []string // nil: the record cannot be read
	}{
		{"it does not move", outside, nil, []string{"external 10.0.0.101"}},
		{"from a balancer", outside, balancer, []string{"external 10.0.0.101", "haproxy 10.0.0.100"}},
		{"to a balancer", balancer, outside, []string{"external 10.0.0.101", "haproxy 10.0.0.100"}},
		{"to another name", registrationText(other), registrationText(name), []string{
			"dns api.example.com", "dns api2.example.com",
		}},
		{"records that move to another zone", registrationText(name), registrationText(name), []string{
			"dns api.example.com",
		}},
		{"not a registration", json.RawMessage(`{"kind": 1}`), nil, nil},
		{"leaves what is not a registration", outside, json.RawMessage(`{"kind": 1}`), []string{"external 10.0.0.101"}},
	} {
		recorded := controlplane.Recorded{
			Name: "cp1", Port: 6443, ClusterID: "a", Registration: c.registered, Leaves: c.leaves,
		}
		got, err := replicaIn(recorded)
		if (err == nil) != (c.want != nil) || !slices.Equal(got.Endpoints, c.want) {
			t.Errorf("%s: it counts at %q, want %q (%v)", c.name, got.Endpoints, c.want, err)
		}
		for _, id := range []string{
			"external 10.0.0.101", "haproxy 10.0.0.100", "dns api.example.com", "dns api2.example.com", "bgp 10.0.0.100",
		} {
			if is := isAt(recorded, id); is != slices.Contains(c.want, id) {
				t.Errorf("%s: registered at %s: %t", c.name, id, is)
			}
		}
	}
	foreign, err := replicaIn(controlplane.Recorded{Foreign: true, ClusterID: "a"})
	if err != nil || !foreign.Foreign || foreign.ClusterID != "a" {
		t.Errorf("without a record: %+v, %v", foreign, err)
	}
}

// TestMovesRotation: a dns endpoint whose records move to another server or zone keeps its ID.
func TestMovesRotation(t *testing.T) {
	zone := func(server, key string) endpoint.Registration {
		return endpoint.Registration{
			Kind: endpoint.DNS, Address: "api.example.com", ClusterID: "c",
			Zone: &endpoint.Zone{Name: "example.com", Server: server, TSIGKey: key},
		}
	}
	before, other := zone("10.0.0.53:53", "key"), zone("10.0.0.53:53", "key")
	other.Address = "api.example.org"
	for name, c := range map[string]struct {
		after endpoint.Registration
		moves bool
	}{
		"the same":       {zone("10.0.0.53:53", "key"), false},
		"another key":    {zone("10.0.0.53:53", "other"), false},
		"another server": {zone("10.0.0.54:53", "key"), true},
		"another name":   {other, true},
	} {
		if got := movesRotation(before, c.after); got != c.moves {
			t.Errorf("%s: %t, want %t", name, got, c.moves)
		}
	}
}

// open counts the changes for which it is open.
type open struct{ now, most int }

func (*open) Begins(context.Context) error { return nil }
func (*open) Ended(context.Context) error  { return nil }

func (o *open) Open() (end func()) {
	o.now++
	o.most++
	return func() { o.now-- }
}

// TestChanging: a change is open on both machines of a member that moves, until it ends.
func TestChanging(t *testing.T) {
	here, former := &open{}, &open{}
	end := changing(etcd.Spec{Outage: here, FormerOutage: former})
	for _, o := range []*open{here, former} {
		if o.now != 1 {
			t.Errorf("%d changes are open", o.now)
		}
	}
	end()
	for _, o := range []*open{here, former} {
		if o.now != 0 || o.most != 1 {
			t.Errorf("%d changes are left of %d", o.now, o.most)
		}
	}
	changing(etcd.Spec{})()
}
