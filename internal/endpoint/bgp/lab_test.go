package bgp

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const (
	labAddress = "10.200.0.1"
	labPrefix  = labAddress + "/32"
	labSubnet  = "10.86.0.0/24"
	labRouter  = "10.86.0.1" // the test's own address in the lab

	labAddress6 = "fd00:200::1"
	labSubnet6  = "fd00:86::/64"
	labRouter6  = "fd00:86::1"
)

// machines is the lab of this package's tests.
var machines agenttest.Lab

func TestMain(m *testing.M) {
	agenttest.StandInIfAsked()
	flag.Parse()
	os.Exit(machines.RunTests(m, lab.Config{
		Name: "bgplab", Subnet: netip.MustParsePrefix(labSubnet), Subnet6: netip.MustParsePrefix(labSubnet6),
		Machines: []string{"a", "b", "c"},
	}, ""))
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
		ClusterID: testCluster, Address: labAddress, Targets: map[string]string{}, ASN: agenttest.MachineASN,
		BFDInterval: agenttest.CalmBFD,
		Peers:       []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, BFD: true}},
	}}
	f.Stage = agenttest.NewStage(t, &machines, around, func() endpoint.Registration { return f.spec.Registration() })
	for _, m := range machines.Machines() {
		f.spec.Targets[m.Name] = m.Address.String()
	}
	f.endpoints = New(f.Observer(), map[string]string{"router": "Jk8_x"})
	return f
}

func (f *fixture) registrar() *registrar { return f.endpoints.For(f.spec.Registration()) }

// hasRoute reports whether the router has a route to the endpoint by way of a machine.
func (f *fixture) hasRoute(name string) bool {
	routes, err := f.Router.Routes()
	f.Must(err)
	return slices.Contains(routes[f.Prefix()], f.spec.Targets[name])
}

// answeredBy requests the endpoint by the route to one machine, and returns who answers.
func (f *fixture) answeredBy(route ...string) (string, error) {
	args := append([]string{"route", "replace", f.Prefix()}, route...)
	if out, err := exec.CommandContext(f.Ctx, "ip", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	defer func() { _ = exec.CommandContext(f.Ctx, "ip", "route", "delete", f.Prefix()).Run() }()
	web := &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a stand-in's
	}}
	response, err := web.Get("https://" + net.JoinHostPort(f.spec.Address, "6443") + "/")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// dynamic accepts sessions from all machines of the lab, with BFD.
func dynamic(interval time.Duration) string {
	return fmt.Sprintf(agenttest.DynamicNeighbors, labSubnet, interval.Microseconds())
}

// TestBGPOnMachines is the life of one endpoint on three machines with a router.
func TestBGPOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.Router = agenttest.StartRouter(t, labRouter, labRouter, dynamic(agenttest.CalmBFD))
	f.InstallStandIns()
	for _, step := range []struct {
		name string
		run  func(*fixture)
	}{
		{"a machine of another endpoint is refused", stepOther},
		{"replicas register", stepRegister},
		{"only the endpoint's address is announced, and nothing learned", stepFilters},
		{"neighbors do not learn who has the address", stepNeighbors},
		{"a drain withdraws, and only one replica leaves at a time", stepDrain},
		{"a replica that stops, crashes or is not ready", stepAPIServer},
		{"bird is killed", stepBird},
		{"bird hangs", stepBirdHangs},
		{"the health check ends or hangs", stepHealth},
		{"drift is observed and repaired", stepDrift},
		{"one of two peers is down", stepPeerDown},
		{"the cable is pulled", stepCable},
		{"after a reboot nothing is announced before the API server is ready", stepReboot},
		{"a session with a password", stepPassword},
		{"deleted replicas leave clean machines", stepDelete},
	} {
		f.Step(step.name, state, func() { step.run(f) })
	}
}

// state prints what bird does.
const state = "ip -br address; journalctl --no-pager -n 60 -u 'kube-endpoint-*'; " +
	"timeout 5 birdc -s " + socketPath + " show protocols all; cat " + configPath

// assertClean: nothing of the endpoint is on any machine.
func (f *fixture) assertClean() {
	f.Helper()
	f.AssertClean(configDir+" "+packages.BGP().StateDir, "pgrep -xl bird || true; command -v bird || true")
}
