package acceptance

import (
	"context"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// zones are the zones of the machines, and the machines that are the zones' routers.
var (
	zones   = map[string]string{"cp1": "a", "cp2": "b", "cp3": "c"}
	routers = map[string]string{"a": "cp4", "b": "cp5", "c": "cp6"}
)

// writeZones writes the variables of the example. moved has other zones for some machines.
func writeZones(t *testing.T, w *workspace.Workspace, moved map[string]string, names ...string) {
	t.Helper()
	machines, at := map[string]any{}, map[string]any{}
	for _, name := range names {
		zone := zones[name]
		if moved[name] != "" {
			zone = moved[name]
		}
		machines[name] = map[string]any{"address": address(name), "zone": zone}
	}
	for zone, name := range routers {
		at[zone] = map[string]any{"address": address(name), "asn": services.RouterASN}
	}
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": machines, "routers": at, "endpoint_address": services.Anycast, "asn": services.ReplicasASN,
	}); err != nil {
		t.Fatal(err)
	}
}

// TestThreeZones is the life of a control plane in three zones. The clients are in the first one, whose
// router prefers the replica of its own zone.
func TestThreeZones(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, append(names, "cp4", "cp5", "cp6"), checkout(t), "examples/three-zones")
	t.Cleanup(func() {
		for _, name := range routers {
			if err := shared.lab.Machine(name).Rebuild(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	bare := fingerprints(t, names...)
	at := func(zone string) *lab.Machine { return shared.lab.Machine(routers[zone]) }
	b := startRouter(t, at("b"), at("a"), at("c"))
	c := startRouter(t, at("c"), at("a"), at("b"))
	a := startRouter(t, at("a"), at("b"), at("c")) // the last one: this computer sends requests to it

	t.Run("create", func(t *testing.T) {
		writeZones(t, w, nil, "cp1")
		apply(t, w)
		a.await(t, "cp1")
		b.await(t, "cp4") // through the router of the zone that has a replica
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("clients during changes", func(t *testing.T) {
		l := startClients(t, load.Config{Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: rerouted()})
		writeZones(t, w, nil, names...)
		apply(t, w)
		a.await(t, "cp1")
		b.await(t, "cp2")
		c.await(t, "cp3")
		apply(t, w, "-replace="+inModule(replicaAddress("cp1")))
		a.await(t, "cp1")
		writeZones(t, w, map[string]string{"cp3": "b"}, names...) // a machine moves to another zone
		apply(t, w)
		b.await(t, "cp2", "cp3")
		writeZones(t, w, nil, names...)
		apply(t, w)
		c.await(t, "cp3")
		undisturbed(t, l)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("a zone that is lost", func(t *testing.T) {
		took := dies(t, shared.lab.Machine("cp2"), func() { b.await(t, "cp4", "cp6") }) // the routers of the others
		t.Logf("the routers of the other zones have the clients of a lost zone after %s", took)
		for _, r := range []router{a, b, c} {
			onMachine(t, r.Machine, "curl -s -k --fail --max-time 5 -o /dev/null https://"+services.Anycast+":6443/readyz")
		}
		if err := shared.lab.Machine("cp2").Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.await(t, "cp2")
		expectEmptyPlan(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	apply(t, w, "-destroy")
	passes(t, w)
	expectBare(t, bare, names...)
}
