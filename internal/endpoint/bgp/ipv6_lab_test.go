package bgp

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// peers6 makes the sessions of dynamic carry IPv6 routes.
const peers6 = `  [[peer-groups.afi-safis]]
    [peer-groups.afi-safis.config]
      afi-safi-name = "ipv6-unicast"
`

// TestBGPOnMachinesWithIPv6 is the life of an endpoint whose address, machines and router have IPv6.
func TestBGPOnMachinesWithIPv6(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.Listen, f.spec.Address = "[::]:6443", labAddress6
	f.spec.Peers = []endpoint.Peer{{Address: labRouter6, ASN: agenttest.RouterASN, BFD: true}}
	for _, m := range machines.Machines() {
		f.spec.Targets[m.Name] = m.Address6.String()
	}
	f.Router = agenttest.StartRouter(t, labRouter, labRouter6,
		fmt.Sprintf(agenttest.DynamicNeighbors, labSubnet6, agenttest.CalmBFD.Microseconds())+peers6)
	f.InstallStandIns()
	for _, step := range []struct {
		name string
		run  func(*fixture)
	}{
		{"replicas register", stepRegister},
		{"the address is no source of a machine's own connections", stepSource6},
		{"a drain withdraws, and only one replica leaves at a time", stepDrain},
		{"a replica that stops, crashes or is not ready", stepAPIServer},
		{"the cable is pulled", stepCable6},
		{"after a reboot nothing is announced before the API server is ready", stepReboot6},
		{"deleted replicas leave clean machines", stepDelete},
	} {
		f.Step(step.name, state, func() { step.run(f) })
	}
}

func stepSource6(f *fixture) {
	for _, name := range f.Names() {
		if route := f.Shell(name, "ip -6 route get "+labRouter6); strings.Contains(route, "src "+labAddress6) {
			f.Errorf("%s uses the endpoint's address as a source: %s", name, route)
		}
	}
}

func stepCable6(f *fixture) {
	f.After("cable pulled", 20*time.Second, func() error { return machines.Machine("a").Cut(f.Ctx) }, "b", "c")
	f.Must(machines.Machine("a").Heal(f.Ctx))
	f.Within(20*time.Second, "a", "b", "c")
}

func stepReboot6(f *fixture) {
	f.Must(machines.Machine("a").PowerOff(f.Ctx))
	f.Must(machines.Machine("a").Boot(f.Ctx))
	f.Shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done; sleep 2")
	if f.hasRoute("a") {
		f.Error("the machine announces the address without an API server")
	}
	f.Shell("a", "systemctl start stand-in")
	f.Within(10*time.Second, "a", "b", "c")
}

// TestClosedConnections: ss selects the connections that servers have accepted at the endpoint's address, of both
// families: those of clients, and those of konnectivity's agents at another port. What the machine has opened from that
// address stays. Many kernels cannot close connections, so the selection is what can be tested everywhere.
func TestClosedConnections(t *testing.T) {
	if _, err := exec.LookPath("ss"); err != nil {
		testrun.Missing(t, err)
	}
	shown := strings.NewReplacer(" --kill ", " --numeric ", ") >/dev/null 2>&1 || true", ")")
	selecting := shown.Replace(string(closeScript))
	if strings.Contains(selecting, "--kill") || strings.Contains(selecting, "|| true") {
		t.Fatalf("the script is not one that selects:\n%s", selecting)
	}
	other, _ := connected(t, "127.0.0.1")
	for _, address := range []string{"127.99.98.97", "::1"} {
		api, client := connected(t, address)
		agents, _ := connected(t, address)
		script := exec.CommandContext(t.Context(), "sh", "-euc", selecting)
		script.Env = append(script.Environ(), "prefix="+prefixOf(endpoint.Registration{Address: address}).String())
		out, err := script.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		selected := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			selected[append(strings.Fields(line), "", "", "", "")[3]] = true
		}
		if !selected[api] || !selected[agents] || selected[other] || selected[client] {
			t.Errorf("%s: ss selects %q, and not %s and %s alone, without %s", address, out, api, agents, client)
		}
	}
}

// connected returns the addresses and ports of a server that has a connection, and of its client, which has opened it
// from the same address.
func connected(t *testing.T, address string) (server, client string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = http.Serve(listener, nil) }() //nolint:gosec // it only has to accept
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	connection, err := dialer.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return listener.Addr().String(), connection.LocalAddr().String()
}
