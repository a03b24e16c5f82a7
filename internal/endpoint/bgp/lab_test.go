package bgp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
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
)

// machines is the lab of this package's tests; missing says why there is none.
var machines struct {
	lab     *lab.Lab
	missing string
}

func TestMain(m *testing.M) {
	standInIfAsked()
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if testing.Short() {
		machines.missing = "-short leaves the lab out"
	} else {
		machines.missing = lab.Missing()
	}
	if machines.missing != "" {
		return m.Run()
	}
	config := lab.Config{Name: "bgplab", Subnet: netip.MustParsePrefix(labSubnet), Machines: []string{"a", "b", "c"}}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

// fixture is the lab as the tests of one endpoint see it.
type fixture struct {
	*testing.T
	ctx       context.Context
	spec      Spec
	pool      *host.Pool
	endpoints *Endpoints
	router    *router
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
	f := &fixture{T: t, pool: pool, replicas: map[string]bool{}, spec: Spec{
		ClusterID: testCluster, Address: labAddress, Targets: map[string]string{}, ASN: machineASN,
		Peers: []endpoint.Peer{{Address: labRouter, ASN: routerASN, BFD: true}},
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
			return targets.Replica{Name: name, Port: 6443, ClusterID: f.spec.ClusterID, Endpoint: f.spec.Address}, nil
		}
	}
	return targets.Replica{}, nil
}

func (f *fixture) registrar() *Registrar { return f.endpoints.For(f.spec.Registration()) }

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

// routed reports whether the router's routes to the endpoint lead to exactly these machines.
func (f *fixture) routed(names ...string) bool {
	routes, err := f.router.routes()
	f.must(err)
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
			routes, _ := f.router.routes()
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
			Script: "cat >/opt/stand-in && chmod 755 /opt/stand-in", Stdin: bytes.NewReader(program),
		})
		f.must(err)
		_, err = machine.Apply(f.ctx, host.Change{Files: []host.File{{
			Path: "/etc/systemd/system/stand-in.service", Mode: 0o644,
			Content: []byte("[Service]\nEnvironment=" + standInAddress + "=0.0.0.0:6443 " + standInName + "=" + name +
				"\nExecStart=/opt/stand-in\n"),
		}}, Script: "systemctl start stand-in"})
		f.must(err)
		f.replicas[name] = true
	}
}

// answeredBy requests the endpoint by the route to one machine, and returns who answers.
func (f *fixture) answeredBy(route ...string) (string, error) {
	args := append([]string{"route", "replace", labPrefix}, route...)
	if out, err := exec.CommandContext(f.ctx, "ip", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	defer func() { _ = exec.CommandContext(f.ctx, "ip", "route", "delete", labPrefix).Run() }()
	web := &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a stand-in's
	}}
	response, err := web.Get("https://" + labAddress + ":6443/")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// TestLab is the life of one endpoint on three machines with a router.
func TestLab(t *testing.T) {
	f := newFixture(t)
	f.router = startRouter(t, labRouter, fmt.Sprintf(dynamic, labSubnet))
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
					"birdc -s "+socketPath+" show protocols all; cat "+configPath)
				t.Logf("%s:\n%s", m.Name, output)
			}
			t.FailNow()
		}
	}
}

// stepOther: the record of another cluster's endpoint protects the machine.
func stepOther(f *fixture) {
	other := f.spec
	other.ClusterID = strings.Repeat("f", 32)
	f.shell("b", "mkdir -p "+configDir)
	_, err := f.registrar().Machine(f.spec.Targets["b"]).Apply(f.ctx, host.Change{Files: []host.File{
		{Path: recordPath, Mode: 0o644, Content: []byte(recordText(other.Registration(), "x"))},
	}})
	f.must(err)
	if _, err := f.endpoints.Create(f.ctx, f.spec); err == nil || !strings.Contains(err.Error(), "another endpoint") {
		f.Errorf("create: %v", err)
	}
	if err := f.registrar().Register(f.ctx, "b", f.at("b")); !errors.Is(err, errOther) {
		f.Errorf("register: %v", err)
	}
	if left := f.shell("b", "ls "+configDir+"; command -v bird || true"); strings.TrimSpace(left) != "endpoint.json" {
		f.Errorf("the machine has %q", left)
	}
	f.shell("b", "rm -r "+configDir)
}

func stepRegister(f *fixture) {
	status, err := f.endpoints.Create(f.ctx, f.spec)
	f.must(err)
	if status.ConfigDigest == "" || len(status.Drift) > 0 {
		f.Errorf("status is %+v", status)
	}
	for _, name := range f.names() {
		started := time.Now()
		f.must(f.registrar().Register(f.ctx, name, f.at(name)))
		f.Logf("register %s took %s", name, time.Since(started).Round(10*time.Millisecond))
		differences, err := f.registrar().Registered(f.ctx, name, f.at(name))
		f.must(err)
		if len(differences) > 0 {
			f.Errorf("after Register, %s differs: %q", name, differences)
		}
		own := f.shell(name, "systemctl is-active bird.service; systemctl is-enabled bird.service || true")
		if strings.TrimSpace(own) != "inactive\ndisabled" {
			f.Errorf("the distribution's own bird is %q", own)
		}
	}
	f.within(time.Second, f.names()...)
	for _, name := range f.names() {
		if by, err := f.answeredBy("via", f.spec.Targets[name]); err != nil || by != name {
			f.Errorf("by the route to %s, the endpoint is answered by %q: %v", name, by, err)
		}
	}
	started := time.Now()
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.Logf("registering again took %s", time.Since(started).Round(10*time.Millisecond))
	serving, err := f.registrar().Serving(f.ctx)
	f.must(err)
	if len(serving) != 3 {
		f.Errorf("serving are %v", serving)
	}
}

func stepFilters(f *fixture) {
	f.shell("a", "ip address add 10.201.0.1/32 dev lo; ip route add 10.202.0.0/16 via "+labRouter)
	_, err := f.router.ask("global", "rib", "add", "203.0.113.0/24")
	f.must(err)
	// What the router sends is there before its next keepalive.
	f.shell("a", "sleep 2")
	routes, err := f.router.routes()
	f.must(err)
	if got := slices.Sorted(maps.Keys(routes)); !slices.Equal(got, []string{labPrefix, "203.0.113.0/24"}) {
		f.Errorf("the router knows %v", got)
	}
	table := f.shell("a", "birdc -s "+socketPath+" show route all; ip route show table all")
	if strings.Contains(table, "203.0.113") {
		f.Errorf("a machine has learned a route:\n%s", table)
	}
	f.shell("a", "ip address delete 10.201.0.1/32 dev lo; ip route delete 10.202.0.0/16")
	_, err = f.router.ask("global", "rib", "del", "203.0.113.0/24")
	f.must(err)
	for _, unit := range units() {
		state := f.shell("a", "systemctl show -p NoNewPrivileges,ProtectSystem "+unit)
		if !strings.Contains(state, "NoNewPrivileges=yes") || !strings.Contains(state, "ProtectSystem=strict") {
			f.Errorf("%s has %q", unit, state)
		}
	}
}

// stepNeighbors: with a route to the network instead of a machine, nobody says that it has the address.
func stepNeighbors(f *fixture) {
	if by, err := f.answeredBy("dev", "bridge"); err == nil {
		f.Errorf("%s answers for the address on the network", by)
	}
}

func stepDrain(f *fixture) {
	f.after("drain, with the observation of all replicas", 5*time.Second, func() error {
		return f.registrar().Drain(f.ctx, "a")
	}, "b", "c")
	var refusal *endpoint.Refusal
	if err := f.registrar().Drain(f.ctx, "b"); !errors.As(err, &refusal) || refusal.Last {
		f.Errorf("a second drain: %v", err)
	}
	out, err := f.registrar().OutOfRotation(f.ctx)
	f.must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if !slices.Contains(differences, "out of rotation: "+errDrained.Error()) {
		f.Errorf("differences are %q", differences)
	}
	f.must(f.registrar().Drain(f.ctx, "a")) // again
	f.must(f.registrar().DrainForDelete(f.ctx, "b", false))
	f.within(time.Second, "c")
	if err := f.registrar().DrainForDelete(f.ctx, "c", false); !errors.As(err, &refusal) || !refusal.LastServing() {
		f.Errorf("the last one: %v", err)
	}
	f.must(f.registrar().Undrain(f.ctx, "a"))
	f.must(f.registrar().Undrain(f.ctx, "b"))
	f.within(5*time.Second, "a", "b", "c")
	f.after("withdrawal of a drain", 2*time.Second, func() error {
		return f.registrar().withdraw(f.ctx, targets.Target{Name: "a", Address: f.spec.Targets["a"]})
	}, "b", "c")
	f.must(f.registrar().Undrain(f.ctx, "a"))
	f.Logf("undrain: the routes are back after %d ms", f.within(5*time.Second, "a", "b", "c").Milliseconds())
}

func stepAPIServer(f *fixture) {
	unit := func(command string) func() error {
		return func() error { _, err := machines.lab.Machine("a").Run(f.ctx, command); return err }
	}
	f.after("API server stops (it serves 5 s longer)", 4*time.Second, unit("systemctl stop stand-in"), "b", "c")
	f.shell("a", "systemctl start stand-in")
	f.within(5*time.Second, "a", "b", "c")
	f.after("API server killed", 3*time.Second, unit("systemctl kill -s KILL stand-in"), "b", "c")
	f.shell("a", "systemctl start stand-in")
	f.within(5*time.Second, "a", "b", "c")
	f.after("API server not ready", 4*time.Second, unit("touch "+notReadyFile), "b", "c")
	out, err := f.registrar().OutOfRotation(f.ctx)
	f.must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	f.shell("a", "rm "+notReadyFile)
	f.within(5*time.Second, "a", "b", "c")
}

func stepBird(f *fixture) {
	f.after("kill -9 of bird", 2*time.Second, func() error {
		_, err := machines.lab.Machine("a").Run(f.ctx, "systemctl kill -s KILL "+birdUnit)
		return err
	}, "b", "c")
	f.Logf("bird: the route is back after %d ms", f.within(15*time.Second, "a", "b", "c").Milliseconds())
}

func stepHealth(f *fixture) {
	run := func(command string) func() error {
		return func() error { _, err := machines.lab.Machine("a").Run(f.ctx, command); return err }
	}
	f.after("health check stopped", 3*time.Second, run("systemctl stop "+healthUnit), "b", "c")
	f.shell("a", "systemctl start "+healthUnit)
	f.within(5*time.Second, "a", "b", "c")
	f.after("health check killed", 3*time.Second, run("systemctl kill -s KILL "+healthUnit), "b", "c")
	f.within(5*time.Second, "a", "b", "c")
	f.after("health check hangs", 40*time.Second, run("systemctl kill -s STOP "+healthUnit), "b", "c")
	f.within(5*time.Second, "a", "b", "c")
}

func stepDrift(f *fixture) {
	f.after("address removed", 2*time.Second, func() error {
		_, err := machines.lab.Machine("a").Run(f.ctx, "ip address delete "+labPrefix+" dev lo; echo '# x' >>"+configPath+
			"; systemctl disable -q "+birdUnit)
		return err
	}, "b", "c")
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	for _, want := range []string{
		"out of rotation: " + errNoAddress.Error(), configPath + ": content differs", birdUnit + " is not enabled",
	} {
		if !slices.Contains(differences, want) {
			f.Errorf("%q is not among %q", want, differences)
		}
	}
	before := f.shell("a", "systemctl show --value -p MainPID "+birdUnit)
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	differences, err = f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if len(differences) > 0 || !f.routed("a", "b", "c") {
		f.Errorf("after the repair: %q", differences)
	}
	if after := f.shell("a", "systemctl show --value -p MainPID "+birdUnit); after != before {
		f.Error("bird was restarted for a new configuration")
	}
}

// stepPeerDown: a second router that never answers is drift, and takes nobody out of rotation.
func stepPeerDown(f *fixture) {
	before := f.spec
	f.spec.Peers = append(slices.Clone(f.spec.Peers), endpoint.Peer{Address: "10.86.0.250", ASN: routerASN, BFD: true})
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if len(differences) != 1 || !strings.HasPrefix(differences[0], "session with peer 10.86.0.250 is not established") {
		f.Errorf("differences are %q", differences)
	}
	if !f.routed("a", "b", "c") {
		f.Error("a replica with one of two sessions is out of rotation")
	}
	f.spec = before
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(time.Second, "a", "b", "c")
}

func stepCable(f *fixture) {
	f.after("cable pulled (BFD 300 ms x 3)", 2*time.Second, func() error {
		return machines.lab.Machine("a").Cut(f.ctx)
	}, "b", "c")
	f.must(machines.lab.Machine("a").Heal(f.ctx))
	f.Logf("cable: the route is back after %d ms", f.within(20*time.Second, "a", "b", "c").Milliseconds())
}

func stepReboot(f *fixture) {
	f.after("power off", 2*time.Second, func() error { return machines.lab.Machine("a").PowerOff(f.ctx) }, "b", "c")
	f.must(machines.lab.Machine("a").Boot(f.ctx))
	f.shell("a", "systemctl is-active "+strings.Join(units(), " "))
	f.shell("a", "ip -o address show dev lo to "+labPrefix+" | grep -q .")
	f.shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done")
	f.shell("a", "sleep 2") // several health checks
	if !f.routed("b", "c") {
		f.Error("the machine announces the address without an API server")
	}
	f.shell("a", "systemctl start stand-in")
	f.within(5*time.Second, "a", "b", "c")
	f.must(f.registrar().Drain(f.ctx, "a"))
	f.must(machines.lab.Machine("a").PowerOff(f.ctx))
	f.must(machines.lab.Machine("a").Boot(f.ctx))
	f.shell("a", "systemctl start stand-in")
	f.shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done; sleep 2")
	if !f.routed("b", "c") {
		f.Error("a drained replica is in rotation after a reboot")
	}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(time.Second, "a", "b", "c")
}

func stepPassword(f *fixture) {
	f.router.stop()
	text := ""
	for _, name := range f.names() {
		text += fmt.Sprintf(neighbor, f.spec.Targets[name], "Jk8_x")
	}
	f.router = startRouter(f.T, labRouter, text)
	f.spec.Peers = []endpoint.Peer{{Address: labRouter, ASN: routerASN, Password: "router"}}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(time.Second, "a")
	f.shell("a", "sleep 4") // the others try every two seconds
	if !f.routed("a") {
		f.Error("a machine without the password has a session")
	}
	f.must(f.registrar().Register(f.ctx, "c", f.at("c")))
	f.within(time.Second, "a", "c")
	if mode := f.shell("a", "stat -c %a:%U "+configPath); strings.TrimSpace(mode) != "600:root" {
		f.Errorf("the file with the password has %s", mode)
	}
	if log := f.shell("a", "journalctl --no-pager | grep -c Jk8_x || true"); strings.TrimSpace(log) != "0" {
		f.Error("the password is in the journal")
	}
	f.after("cable pulled, without BFD (hold time 3 s)", 5*time.Second, func() error {
		return machines.lab.Machine("a").Cut(f.ctx)
	}, "c")
	f.must(machines.lab.Machine("a").Heal(f.ctx))
}

func stepDelete(f *fixture) {
	const inUse = "still have a replica"
	if err := f.endpoints.Delete(f.ctx, f.spec, time.Second); err == nil || !strings.Contains(err.Error(), inUse) {
		f.Errorf("delete with replicas: %v", err)
	}
	// A machine that is off is skipped, and the endpoint's own delete removes what is left.
	f.must(machines.lab.Machine("b").PowerOff(f.ctx))
	f.must(f.registrar().DrainForDelete(f.ctx, "b", false))
	f.must(f.registrar().Deregister(f.ctx, "b"))
	f.must(machines.lab.Machine("b").Boot(f.ctx))
	f.must(f.registrar().DrainForDelete(f.ctx, "a", false))
	f.must(f.registrar().Deregister(f.ctx, "a"))
	f.must(f.registrar().Deregister(f.ctx, "a")) // again
	f.must(f.registrar().Undrain(f.ctx, "a"))
	for _, name := range f.names() {
		f.replicas[name] = false
		f.shell(name, "systemctl stop --no-block stand-in")
	}
	f.must(f.endpoints.Delete(f.ctx, f.spec, 5*time.Second))
	for _, name := range f.names() {
		left := f.shell(name, `ls -d `+configDir+` /opt/kube `+packagesDir+` /etc/systemd/system/*kube-endpoint* \
/etc/systemd/system/multi-user.target.wants/kube-endpoint-* /run/kube-endpoint* 2>/dev/null
ip -o address show to `+labPrefix+`
systemctl list-units --all --no-legend 'kube-endpoint*'
pgrep -xl bird || true; command -v bird || true
cat /proc/sys/net/ipv4/conf/eth0/arp_ignore /proc/sys/net/ipv4/conf/eth0/arp_announce | grep -v '^0' || true`)
		if strings.TrimSpace(left) != "" {
			f.Errorf("left on %s:\n%s", name, left)
		}
	}
}
