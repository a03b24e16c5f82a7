package kubevip

import (
	"context"
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const (
	labSubnet  = "10.89.0.0/24"
	labRouter  = "10.89.0.1" // the test's own address in the lab
	labAddress = "10.200.0.1"
	labPrefix  = labAddress + "/32"

	// calmHoldTime is the hold time of sessions: on a busy computer, they must not end because a program waits for the
	// processor.
	calmHoldTime = 9 * time.Second
)

// machines is the lab of this package's tests.
var machines agenttest.Lab

func TestMain(m *testing.M) {
	agenttest.StandInIfAsked()
	flag.Parse()
	missing := ""
	if os.Getenv(supplied.KubeVIP) == "" {
		missing = supplied.KubeVIP + " names no program"
	}
	os.Exit(machines.RunTests(m, lab.Config{
		Name: "kubeviplab", Subnet: netip.MustParsePrefix(labSubnet), Machines: []string{"a", "b"},
	}, missing))
}

// fixture is the lab as the tests of one endpoint see it.
type fixture struct {
	*agenttest.Stage
	spec      Spec
	endpoints *Endpoints
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureAround(t, nil)
}

func newFixtureAround(t *testing.T, around host.Around) *fixture {
	t.Helper()
	f := &fixture{spec: Spec{
		ClusterID: testCluster, Address: labAddress, Mode: BGP, Targets: map[string]string{},
		Announcement: endpoint.Announcement{
			ASN: agenttest.MachineASN, Peers: []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN}},
			HoldTime: calmHoldTime,
		},
	}}
	f.Stage = agenttest.NewStage(t, &machines, around, func() endpoint.Registration { return f.spec.Registration() })
	for _, m := range machines.Machines() {
		f.spec.Targets[m.Name] = m.Address.String()
	}
	f.endpoints = New(f.Observer(), map[string]string{"router": "Jk8_x"})
	return f
}

func (f *fixture) registrar() *registrar { return f.endpoints.For(f.spec.Registration()) }

// back logs how long it takes until both machines have a route.
func (f *fixture) back(event string, limit time.Duration) {
	f.Helper()
	f.Logf("%s: the route is back after %d ms", event, f.Within(limit, "a", "b").Milliseconds())
}

// TestAnnouncedByKubeVIP is the life of one endpoint in the mode bgp on two machines with a router.
func TestAnnouncedByKubeVIP(t *testing.T) {
	testrun.Long(t)
	kubeVIP := testrun.Supplied(t, supplied.KubeVIP)
	f := newFixture(t)
	f.Router = agenttest.StartRouter(t, labRouter, labRouter, f.Neighbors(""))
	f.InstallStandIns()
	for _, name := range f.Names() {
		f.Must(services.InstallKubeVIP(f.Ctx, machines.Machine(name), kubeVIP))
	}
	const journal = "ip -br address; journalctl --no-pager -n 60 -u " + unitName + " | cut -c -300"
	for _, step := range []struct {
		name string
		run  func(*fixture)
	}{
		{"replicas register", stepRegister},
		{"only the endpoint's address is announced, and nothing is learned", stepFilters},
		{"a drain withdraws, and only one replica leaves at a time", stepDrain},
		{"a replica that stops, crashes or is not ready", stepAPIServer},
		{"kube-vip and its agent are killed, stopped, or hang", stepAgent},
		{"drift is observed and repaired", stepDrift},
		{"a session with a password", stepPassword},
		{"the cable is pulled, and the machine boots again", stepCable},
		{"deleted replicas leave clean machines", stepDelete},
	} {
		f.Step(step.name, journal, func() { step.run(f) })
	}
}

// TestAnnouncedInterrupted: whatever is cut off at any remote command is completed when it is repeated.
func TestAnnouncedInterrupted(t *testing.T) {
	testrun.Long(t)
	kubeVIP := testrun.Supplied(t, supplied.KubeVIP)
	c := &lab.Interruptions{}
	f := newFixtureAround(t, c.Around)
	f.Router = agenttest.StartRouter(t, labRouter, labRouter, f.Neighbors(""))
	f.spec.Targets = map[string]string{"b": f.spec.Targets["b"]}
	f.InstallStandIns()
	f.Must(services.InstallKubeVIP(f.Ctx, machines.Machine("b"), kubeVIP))
	during := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		cuts, err := c.During(f.Ctx, do)
		f.Must(err)
		f.Logf("%s: cut off at %d commands: %s", what, len(cuts), strings.Join(cuts, ", "))
	}
	register := func(ctx context.Context) error { return f.registrar().Register(ctx, "b", f.At("b")) }
	registered := func() {
		t.Helper()
		differences, err := f.registrar().Registered(f.Ctx, "b", f.At("b"))
		f.Must(err)
		if len(differences) > 0 {
			f.Errorf("differences are %q", differences)
		}
		f.Within(20*time.Second, "b")
	}
	during("register", register)
	registered()
	for at := 1; at <= 8; at++ { // from nothing, each time
		f.Must(f.registrar().Deregister(f.Ctx, "b"))
		_, _ = c.At(f.Ctx, at, register)
		f.Must(register(f.Ctx))
		registered()
	}
	during("drain", func(ctx context.Context) error { return f.registrar().DrainForDelete(ctx, "b", true) })
	f.Within(20 * time.Second)
	f.Must(f.registrar().Undrain(f.Ctx, "b"))
	f.Within(20*time.Second, "b")
	during("deregister", func(ctx context.Context) error { return f.registrar().Deregister(ctx, "b") })
	f.Within(20 * time.Second)
}
