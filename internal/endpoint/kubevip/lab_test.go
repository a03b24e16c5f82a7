package kubevip

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
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
	case os.Getenv(supplied.KubeVIP) == "":
		machines.missing = supplied.KubeVIP + " names no program"
	default:
		machines.missing = lab.Missing()
	}
	if machines.missing != "" {
		return m.Run()
	}
	for _, program := range []string{"gobgpd", "gobgp"} { // not possible within the lab's network
		if _, err := build.Set(ctx, program); err != nil {
			fmt.Fprintln(os.Stderr, "kubevip: build the router:", err)
			return 1
		}
	}
	config := lab.Config{
		Name: "kubeviplab", Subnet: netip.MustParsePrefix(labSubnet), Machines: []string{"a", "b"},
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
}

func newFixture(t *testing.T) *fixture {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	f := &fixture{T: t, whole: t, pool: pool, replicas: map[string]bool{}, spec: Spec{
		ClusterID: testCluster, Address: labAddress, Mode: BGP, Targets: map[string]string{},
		Announcement: endpoint.Announcement{
			ASN: agenttest.MachineASN, Peers: []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN}},
			HoldTime: calmHoldTime,
		},
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

// on returns a function that runs a script on a machine.
func (f *fixture) on(machine, script string) func() error {
	return func() error { _, err := machines.lab.Machine(machine).Run(f.ctx, script); return err }
}

// routed reports whether the router has routes to the endpoint by way of exactly these machines, and none but that.
func (f *fixture) routed(names ...string) bool {
	routes, err := f.router.Routes()
	f.must(err)
	for prefix := range routes {
		if prefix != labPrefix {
			f.Fatalf("the router has learned %s", prefix)
		}
	}
	var want []string
	for _, name := range names {
		want = append(want, f.spec.Targets[name])
	}
	slices.Sort(want)
	return slices.Equal(routes[labPrefix], want)
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
		time.Sleep(20 * time.Millisecond)
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

// back logs how long it takes until both machines have a route.
func (f *fixture) back(event string, limit time.Duration) {
	f.Helper()
	f.Logf("%s: the route is back after %d ms", event, f.within(limit, "a", "b").Milliseconds())
}

// installPrograms puts kube-vip and this test binary, which is the stand-in, onto every machine.
func (f *fixture) installPrograms(kubeVIP string) {
	f.Helper()
	self, err := os.Executable()
	f.must(err)
	program, err := os.ReadFile(self)
	f.must(err)
	for _, name := range f.names() {
		f.must(services.InstallKubeVIP(f.ctx, machines.lab.Machine(name), kubeVIP))
		machine := f.pool.Host(host.Target{Address: f.spec.Targets[name]})
		_, err := machine.Run(f.ctx, host.Command{
			Script: "cat >/opt/stand-in.new; chmod 755 /opt/stand-in.new; mv /opt/stand-in.new /opt/stand-in",
			Stdin:  bytes.NewReader(program),
		})
		f.must(err)
		_, err = machine.Apply(f.ctx, host.Change{Files: []host.File{{
			Path: "/etc/systemd/system/stand-in.service", Mode: 0o644,
			Content: []byte("[Service]\nEnvironment=" + agenttest.StandInAddress + "=0.0.0.0:6443 " + agenttest.StandInName +
				"=" + name + "\nExecStart=/opt/stand-in\n"),
		}}, Script: "systemctl restart stand-in"})
		f.must(err)
		f.replicas[name] = true
	}
}

// neighborsOf accepts sessions from all machines, with a password unless it is "".
func (f *fixture) neighborsOf(password string) string {
	text := ""
	for _, name := range f.names() {
		text += fmt.Sprintf(agenttest.Neighbor, f.spec.Targets[name], password)
	}
	return text
}

// TestAnnouncedByKubeVIP is the life of one endpoint in the mode bgp on two machines with a router.
func TestAnnouncedByKubeVIP(t *testing.T) {
	testrun.Long(t)
	kubeVIP := testrun.Supplied(t, supplied.KubeVIP)
	f := newFixture(t)
	f.router = agenttest.StartRouter(t, labRouter, labRouter, f.neighborsOf(""))
	f.installPrograms(kubeVIP)
	steps := []struct {
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
				output, _ := m.Run(context.Background(),
					"ip -br address; journalctl --no-pager -n 60 -u "+unitName+" | cut -c -300")
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
		left := f.shell(name, `ls -d `+configDir+` /opt/kube /etc/systemd/system/*kube-endpoint* \
/etc/systemd/system/multi-user.target.wants/kube-endpoint-* /run/kube-endpoint* 2>/dev/null
ip -o address show to `+labPrefix+`
systemctl list-units --all --no-legend 'kube-endpoint*'
pgrep -xl kube-vip || true
cat /proc/sys/net/ipv4/conf/eth0/arp_ignore /proc/sys/net/ipv4/conf/eth0/arp_announce | grep -v '^0' || true`)
		if strings.TrimSpace(left) != "" {
			f.Errorf("left on %s:\n%s", name, left)
		}
	}
}
