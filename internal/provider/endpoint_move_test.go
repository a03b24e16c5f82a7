package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestChangedElection: replicas follow one after the other, so an endpoint by kube-vip does not change under them how
// its address is held.
func TestChangedElection(t *testing.T) {
	const lease = "kube_vip.lease_name"
	for name, c := range map[string]struct {
		before, after endpoint.Registration
		want          string // "" if there is none
	}{
		"nothing":              {heldAt("arp", ""), heldAt("arp", ""), ""},
		"another mode":         {heldAt("arp", ""), heldAt("bgp", ""), "kube_vip.mode"},
		"and back":             {heldAt("bgp", ""), heldAt("arp", ""), "kube_vip.mode"},
		"another Lease":        {heldAt("arp", ""), heldAt("arp", "plndr-cp-lock"), lease},
		"the default by name":  {heldAt("arp", ""), heldAt("arp", "kube-vip-10.0.0.100"), ""},
		"another endpoint":     {heldAt("arp", ""), announcedFrom("10.0.0.101"), ""},
		"as an additional one": {heldAt("arp", "x"), alsoAt(announcedFrom("10.0.0.101"), heldAt("arp", "y")), lease},
	} {
		got := plannedMove(t, c.before, c.after)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if err := refuseElection(c.before, c.after); (err == nil) != (c.want == "") {
			t.Errorf("%s: the apply says %v", name, err)
		}
	}
}

// TestMoveInOneStep: a replica is at the endpoints that it leaves until it is in rotation at the others, so both must
// be possible on its machine.
func TestMoveInOneStep(t *testing.T) {
	haproxyAt := func(address string) endpoint.Registration {
		return endpoint.Registration{
			Address: "10.0.0.102", Port: 6443, ClusterID: "a", DrainTimeout: time.Second,
			Hosts: map[string]string{"lb1": address},
		}
	}
	named := func(name string) endpoint.Registration {
		return endpoint.Registration{
			Kind: endpoint.DNS, Address: name, Port: 6443, TargetPort: 6443, ClusterID: "a", DrainTimeout: time.Second,
			Hosts: map[string]string{"cp1": "10.0.0.11"},
			Zone: &endpoint.Zone{
				Name: "example.com", Server: "10.0.0.53:53", TSIGKey: "key", TTL: time.Second, CheckInterval: time.Second,
				CheckThreshold: 1,
			},
		}
	}
	many := named("api.example.com")
	for _, host := range []string{"1", "2", "3", "4"} {
		further := haproxyAt("10.0.1." + host)
		further.Address = "10.0.2." + host
		many.Additional = append(many.Additional, further)
	}
	for name, c := range map[string]struct {
		before, after endpoint.Registration
		want          string // "" if there is none
	}{
		"by BGP, the same address":    {announcedFrom("10.0.0.100"), heldAt("bgp", ""), "both manage the address 10.0.0.100"},
		"by BGP, another address":     {announcedFrom("10.0.0.101"), heldAt("bgp", ""), ""},
		"to another one of its kind":  {announcedFrom("10.0.0.101"), announcedFrom("10.0.0.103"), "by BGP only"},
		"from HAProxy on the machine": {haproxyAt("10.0.0.11"), announcedFrom("10.0.0.101"), "uses that port on the same"},
		"to HAProxy on the machine":   {announcedFrom("10.0.0.101"), haproxyAt("10.0.0.11"), "uses that port on the same"},
		"from other machines":         {haproxyAt("10.0.0.21"), announcedFrom("10.0.0.101"), ""},
		"to another name":             {named("api.example.com"), named("api.example.org"), ""},
		"from more than five in all":  {many, haproxyAt("10.0.0.21"), ""},
		"nothing":                     {haproxyAt("10.0.0.11"), haproxyAt("10.0.0.11"), ""},
		"only other balancers":        {haproxyAt("10.0.0.11"), haproxyAt("10.0.0.21"), ""},
	} {
		if got := plannedMove(t, c.before, c.after); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// plannedMove returns the errors of the plan for a replica that has one registration, and is to have another one.
func plannedMove(t *testing.T, before, after endpoint.Registration) string {
	t.Helper()
	state, plan := replicaAt(t, before), replicaAt(t, after)
	var diags diag.Diagnostics
	plan.validateMove(t.Context(), state, &diags)
	got := runtimeErrors(diags)
	if got == "" {
		return ""
	}
	plan.bundle, state.bundle = &pki.Bundle{ClusterID: "new"}, &pki.Bundle{ClusterID: "a"}
	diags = nil
	if plan.validateMove(t.Context(), state, &diags); diags.HasError() {
		t.Errorf("a replica of a new cluster is another one: %v", diags)
	}
	return got
}

func replicaAt(t *testing.T, r endpoint.Registration) (m replicaModel) {
	t.Helper()
	state := importedState(t, replicaSchema(t.Context()), map[string]any{
		"name": "cp1", "host.address": "10.0.0.11", "port": int64(6443),
	})
	var objects []types.Object
	for _, each := range r.All() {
		object, diags := registrationObject(t.Context(), each)
		if diags.HasError() {
			t.Fatal(diags)
		}
		objects = append(objects, object)
	}
	state.SetAttribute(t.Context(), path.Root("endpoint"), objects[0])
	state.SetAttribute(t.Context(), path.Root("additional_endpoints"), objects[1:])
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	return m
}

// heldAt returns an endpoint by kube-vip.
func heldAt(mode, lease string) endpoint.Registration {
	r := endpoint.Registration{
		Kind: endpoint.KubeVIP, Address: "10.0.0.100", Port: 6443, TargetPort: 6443, ClusterID: "a",
		DrainTimeout: time.Second, Hosts: map[string]string{"cp1": "10.0.0.11"},
		KubeVIP: &endpoint.Election{Mode: mode, Program: "/kube-vip", LeaseName: lease, LeaseDuration: time.Second},
	}
	if mode == "bgp" {
		r.BGP = announcedFrom(r.Address).BGP
	}
	return r
}

// announcedFrom returns an endpoint by bird.
func announcedFrom(address string) endpoint.Registration {
	return endpoint.Registration{
		Kind: endpoint.BGP, Address: address, Port: 6443, TargetPort: 6443, ClusterID: "a", DrainTimeout: time.Second,
		Hosts: map[string]string{"cp1": "10.0.0.11"},
		BGP:   &endpoint.Announcement{ASN: 64512, Peers: []endpoint.Peer{{Address: "10.0.0.1", ASN: 64513}}},
	}
}

func alsoAt(r endpoint.Registration, additional ...endpoint.Registration) endpoint.Registration {
	r.Additional = additional
	return r
}
