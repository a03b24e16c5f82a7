package bgp

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
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

// machines is the lab of this package's tests; missing says why there is none.
var machines struct {
	lab     *lab.Lab
	missing string
}

func TestMain(m *testing.M) {
	agenttest.StandInIfAsked()
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	switch {
	case testing.Short():
		machines.missing = "-short leaves the lab out"
	case !testrun.Longer():
		machines.missing = "make test-long runs the tests with a lab"
	default:
		machines.missing = lab.Missing()
	}
	if machines.missing != "" {
		return m.Run()
	}
	for _, program := range []string{"gobgpd", "gobgp"} { // not possible within the lab's network
		if _, err := build.Set(ctx, program); err != nil {
			fmt.Fprintln(os.Stderr, "bgp: build the router:", err)
			return 1
		}
	}
	config := lab.Config{
		Name: "bgplab", Subnet: netip.MustParsePrefix(labSubnet), Subnet6: netip.MustParsePrefix(labSubnet6),
		Machines: []string{"a", "b", "c"},
	}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

// fixture is the lab as the tests of one endpoint see it.
type fixture struct {
	*testing.T
	whole     *testing.T // T is of one step
	ctx       context.Context
	spec      Spec
	pool      *host.Pool
	endpoints *Endpoints
	router    *agenttest.Router
	replicas  map[string]bool // the machines that have a replica
	listen    string          // where the stand-ins listen
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureAround(t, nil)
}

func newFixtureAround(t *testing.T, around host.Around) *fixture {
	t.Helper()
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	key, err := machines.lab.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := host.NewPool(host.Config{
		Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known, ConnectTimeout: 3 * time.Second,
		Around: around,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	f := &fixture{T: t, whole: t, pool: pool, replicas: map[string]bool{}, listen: "0.0.0.0:6443", spec: Spec{
		ClusterID: testCluster, Address: labAddress, Targets: map[string]string{}, ASN: agenttest.MachineASN,
		BFDInterval: agenttest.CalmBFD,
		Peers:       []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, BFD: true}},
	}}
	f.ctx = problem.WithReport(t.Context(), problem.Report{Progress: func(line string) { t.Log(line) }})
	for _, m := range machines.lab.Machines() {
		f.spec.Targets[m.Name] = m.Address.String()
	}
	machine := func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	f.endpoints = New(targets.NewObserver(machine, f.recorded), map[string]string{"router": "Jk8_x"})
	return f
}

// recorded stands in for the record of a replica, which package controlplane writes.
func (f *fixture) recorded(ctx context.Context, address string) (targets.Replica, error) {
	if _, err := f.pool.Host(host.Target{Address: address}).Run(ctx, host.Command{Script: "true"}); err != nil {
		return targets.Replica{}, err
	}
	for name, at := range f.spec.Targets {
		if at == address && f.replicas[name] {
			return targets.Replica{
				Name: name, Port: 6443, ClusterID: f.spec.ClusterID, Endpoints: []string{f.spec.Registration().ID()},
			}, nil
		}
	}
	return targets.Replica{}, nil
}

func (f *fixture) registrar() *registrar { return f.endpoints.For(f.spec.Registration()) }

func (f *fixture) at(name string) string { return net.JoinHostPort(f.spec.Targets[name], "6443") }

func (f *fixture) names() []string { return slices.Sorted(maps.Keys(f.spec.Targets)) }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// shell runs a script on a machine past the code under test.
func (f *fixture) shell(machine, script string) string {
	f.Helper()
	output, err := machines.lab.Machine(machine).Run(f.ctx, script)
	if err != nil {
		f.Fatalf("%s: %v\n%s", machine, err, output)
	}
	return output
}

// prefix returns what the machines announce.
func (f *fixture) prefix() string { return prefixOf(f.spec.Registration()).String() }

// routed reports whether the router's routes to the endpoint lead to exactly these machines.
func (f *fixture) routed(names ...string) bool {
	routes, err := f.router.Routes()
	f.must(err)
	var want []string
	for _, name := range names {
		want = append(want, f.spec.Targets[name])
	}
	slices.Sort(want)
	return slices.Equal(routes[f.prefix()], want)
}

// hasRoute reports whether the router has a route to the endpoint by way of a machine.
func (f *fixture) hasRoute(name string) bool {
	routes, err := f.router.Routes()
	f.must(err)
	return slices.Contains(routes[f.prefix()], f.spec.Targets[name])
}

// within waits until the routes lead to exactly these machines, and returns how long that took.
func (f *fixture) within(limit time.Duration, names ...string) time.Duration {
	f.Helper()
	started := time.Now()
	for !f.routed(names...) {
		if time.Since(started) > limit {
			routes, _ := f.router.Routes()
			f.Fatalf("the routes are %v after %s, want those to %v", routes, limit, names)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(started)
}

// after does something to a machine and logs how long it takes until only the others have a route.
func (f *fixture) after(event string, limit time.Duration, do func() error, others ...string) {
	f.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	took := f.within(limit, others...)
	f.Logf("%s: the route is gone after %d ms", event, took.Milliseconds())
	f.must(<-done)
}

// installStandIns puts this test binary onto every machine.
func (f *fixture) installStandIns() {
	f.Helper()
	self, err := os.Executable()
	f.must(err)
	program, err := os.ReadFile(self)
	f.must(err)
	for _, name := range f.names() {
		machine := f.pool.Host(host.Target{Address: f.spec.Targets[name]})
		_, err := machine.Run(f.ctx, host.Command{
			Script: "cat >/opt/stand-in.new; chmod 755 /opt/stand-in.new; mv /opt/stand-in.new /opt/stand-in",
			Stdin:  bytes.NewReader(program),
		})
		f.must(err)
		_, err = machine.Apply(f.ctx, host.Change{Files: []host.File{{
			Path: "/etc/systemd/system/stand-in.service", Mode: 0o644,
			Content: []byte("[Service]\nEnvironment=" + agenttest.StandInAddress + "=" + f.listen + " " +
				agenttest.StandInName + "=" + name + "\nExecStart=/opt/stand-in\n[Install]\nWantedBy=multi-user.target\n"),
		}}, Script: "systemctl restart stand-in"})
		f.must(err)
		f.replicas[name] = true
	}
}

// answeredBy requests the endpoint by the route to one machine, and returns who answers.
func (f *fixture) answeredBy(route ...string) (string, error) {
	args := append([]string{"route", "replace", f.prefix()}, route...)
	if out, err := exec.CommandContext(f.ctx, "ip", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	defer func() { _ = exec.CommandContext(f.ctx, "ip", "route", "delete", f.prefix()).Run() }()
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
	f.router = agenttest.StartRouter(t, labRouter, labRouter, dynamic(agenttest.CalmBFD))
	f.installStandIns()
	steps := []struct {
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
	}
	for _, step := range steps {
		ok := t.Run(step.name, func(t *testing.T) {
			sub := *f
			sub.T = t
			step.run(&sub)
			f.spec, f.router = sub.spec, sub.router
		})
		if !ok {
			for _, m := range machines.lab.Machines() {
				output, _ := m.Run(context.Background(), "ip -br address; journalctl --no-pager -n 60 -u 'kube-endpoint-*'; "+
					"timeout 5 birdc -s "+socketPath+" show protocols all; cat "+configPath)
				t.Logf("%s:\n%s", m.Name, output)
			}
			t.FailNow()
		}
	}
}

// assertClean: nothing of the endpoint is on any machine.
func (f *fixture) assertClean() {
	f.Helper()
	for _, name := range f.names() {
		left := f.shell(name, `ls -d `+configDir+` /opt/kube `+packages.BGP().StateDir+` /etc/systemd/system/*kube-endpoint* \
/etc/systemd/system/multi-user.target.wants/kube-endpoint-* /run/kube-endpoint* 2>/dev/null
ip -o address show to `+f.prefix()+`
systemctl list-units --all --no-legend 'kube-endpoint*'
pgrep -xl bird || true; command -v bird || true
cat /proc/sys/net/ipv4/conf/eth0/arp_ignore /proc/sys/net/ipv4/conf/eth0/arp_announce | grep -v '^0' || true`)
		if strings.TrimSpace(left) != "" {
			f.Errorf("left on %s:\n%s", name, left)
		}
	}
}
