package acceptance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// router is a machine that routes to the endpoint.
type router struct{ services.Router }

// startRouter makes m a router. siblings are the routers of other zones. The computer of the tests sends
// requests to m.
func startRouter(t *testing.T, m *lab.Machine, siblings ...*lab.Machine) router {
	t.Helper()
	r, err := services.StartRouter(t.Context(), m, subnet, siblings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Forget(context.WithoutCancel(t.Context())) })
	return router{r}
}

// await returns how long it took until the router has routes to exactly these machines.
func (r router) await(t *testing.T, names ...string) time.Duration {
	t.Helper()
	took, err := r.Await(t.Context(), addressList(names))
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// routes returns the machines that the router has routes to, sorted.
func (r router) routes(t *testing.T) []string {
	t.Helper()
	all, err := r.Routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func (r router) write(t *testing.T, w *workspace.Workspace, asn int, names ...string) {
	t.Helper()
	values := r.Variables(asn)
	values["machines"] = addresses(names)
	if err := w.WriteJSON("z.auto.tfvars.json", values); err != nil {
		t.Fatal(err)
	}
}

// rerouted returns the criteria for clients behind a router that spreads connections.
func rerouted() load.Criteria { return unnoticed().Excusing(load.Rerouted(60)...) }

// TestBGPEndpoint is the life of a control plane at an address that its machines announce.
func TestBGPEndpoint(t *testing.T) {
	announced{example: "examples/bgp-endpoint", argument: "bgp.peers", deadFor: 2 * time.Second}.life(t)
}

// announced is a kind of endpoint whose machines announce its address to a router.
type announced struct {
	example  string
	argument string        // of the endpoint: its routers
	deadFor  time.Duration // how long the route to a dead machine may stay
	// install puts onto the machines what users put there before the first apply; may be nil.
	install func(t *testing.T, names ...string)
}

// dies cuts the power of a machine, and returns how long it took until others had noticed that. noticed waits for it.
func dies(t *testing.T, m *lab.Machine, noticed func()) time.Duration {
	t.Helper()
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- m.PowerOff(t.Context()) }()
	noticed()
	took := time.Since(begun)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return took
}

// life creates a control plane, changes it while clients work, and destroys it.
func (a announced) life(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, []string{"cp1", "cp2", "cp3", "cp4"}, checkout(t), a.example)
	t.Cleanup(func() {
		if err := shared.lab.Machine("cp4").Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	bare := fingerprints(t, names...)
	if a.install != nil {
		a.install(t, names...)
	}
	r := startRouter(t, shared.lab.Machine("cp4"))

	t.Run("create", func(t *testing.T) {
		r.write(t, w, services.ReplicasASN, "cp1")
		apply(t, w)
		r.await(t, "cp1")
		onMachine(t, r.Machine, "curl -s -k --fail --max-time 5 -o /dev/null https://"+services.Anycast+":6443/readyz")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("clients during changes", func(t *testing.T) {
		l := startClients(t, load.Config{Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: rerouted()})
		r.write(t, w, services.ReplicasASN, names...)
		apply(t, w)
		r.await(t, names...)
		apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
		r.await(t, names...)
		r.write(t, w, services.ReplicasASN, "cp1")
		apply(t, w)
		r.await(t, "cp1")
		r.write(t, w, services.ReplicasASN, names...)
		apply(t, w)
		undisturbed(t, l)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("healthy", func(t *testing.T) { expectReportedHealthy(t, w) })
	t.Run("imported", func(t *testing.T) { reimported(t, w, "cp2") })
	t.Run("an autonomous system that the router does not accept", func(t *testing.T) {
		r.write(t, w, services.ReplicasASN+9, names...)
		expectContains(t, refused(t, w), "in rotation at endpoint "+services.Anycast, a.argument)
		before := r.routes(t)
		if len(before) != 2 {
			t.Errorf("the router has routes to %v: more than one machine was changed", before)
		}
		expectContains(t, refused(t, w), "another replica is not ready")
		if after := r.routes(t); !slices.Equal(after, before) {
			t.Errorf("the router has routes to %v, and had routes to %v", after, before)
		}
		r.write(t, w, services.ReplicasASN, names...)
		apply(t, w)
		r.await(t, names...)
	})
	t.Run("an API server that stops", func(t *testing.T) {
		m := shared.lab.Machine("cp2")
		onMachine(t, m, "systemctl stop kube-apiserver")
		t.Logf("the route to a stopped API server is gone after %s", r.await(t, "cp1", "cp3"))
		expectContains(t, plan(t, w), "not ready: ")
		onMachine(t, m, "systemctl start kube-apiserver")
		t.Logf("it is back after %s", r.await(t, names...))
		expectEmptyPlan(t, w)
	})
	t.Run("a dead machine", func(t *testing.T) {
		dead := shared.lab.Machine("cp3")
		took := dies(t, dead, func() { r.await(t, "cp1", "cp2") })
		t.Logf("the route to a dead machine is gone %s after the power", took)
		if took > a.deadFor {
			t.Errorf("the route to a dead machine stayed for %s", took)
		}
		if err := dead.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await(t, names...)
		expectEmptyPlan(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	apply(t, w, "-destroy")
	passes(t, w)
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "rm -f "+services.KubeVIPPath)
	}
	expectBare(t, bare, names...)
}
