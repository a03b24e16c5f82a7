package provider

import (
	"context"
	"encoding/json"
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
