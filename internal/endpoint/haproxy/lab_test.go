package haproxy

import (
	"bytes"
	"context"
	"flag"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const (
	labVIP  = "10.95.0.100"
	labVIP6 = "fd00:95::100"

	labFurther, labFurther6 = "10.95.0.101", "fd00:95::101"
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
	if machines.missing = whyNoLab(); machines.missing != "" {
		return m.Run()
	}
	config := lab.Config{
		Name: "eplab", Subnet: netip.MustParsePrefix("10.95.0.0/24"), Subnet6: netip.MustParsePrefix("fd00:95::/64"),
		Machines: []string{"a", "b", "c"},
	}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

func whyNoLab() string {
	if testing.Short() {
		return "-short leaves the lab out"
	}
	return lab.Missing()
}

// fixture is the lab as the tests of one endpoint see it.
type fixture struct {
	*testing.T
	ctx       context.Context
	spec      Spec
	bundle    *pki.Bundle
	ca        []byte // by which clients verify
	machine   func(address string) *host.Host
	registrar *Registrar
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
		Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known,
		ConnectTimeout: 3 * time.Second, Around: around,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	ctx := problem.WithReport(t.Context(), problem.Report{Progress: func(line string) { t.Log(line) }})
	f := &fixture{T: t, ctx: ctx, spec: Spec{
		ClusterID: testCluster, ClusterName: "lab", Address: labVIP,
		Hosts: map[string]*host.Host{}, DrainTimeout: 2 * time.Second,
	}}
	for _, m := range machines.lab.Machines() {
		f.spec.Hosts[m.Name] = pool.Host(host.Target{Address: m.Address.String()})
	}
	f.spec.Registered = func(_ context.Context, name string, at netip.AddrPort) (bool, error) {
		return f.spec.Hosts[name] != nil && at.String() == f.replicaAddress(name), nil
	}
	f.machine = func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	f.registrar = NewRegistrars(f.machine).For(f.spec.Registration())
	return f
}

// registered looks as a refresh that has not seen the balancers yet.
func (f *fixture) registered(name string) ([]string, error) {
	return NewRegistrars(f.machine).For(f.spec.Registration()).Registered(f.ctx, name, f.replicaAddress(name))
}

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

// timed runs do and logs how long it took.
func (f *fixture) timed(what string, do func() error) {
	f.Helper()
	started := time.Now()
	err := do()
	f.Logf("%s took %s", what, time.Since(started).Round(10*time.Millisecond))
	f.must(err)
}

// observed is the status of the endpoint, and what else the same observation contains.
type observed struct {
	endpoint.Status
	holder   string            // the host that has the VIP; "" if none
	hosts    map[string]string // health by host
	backends map[string]string // HAProxy's state of each server on the holder
}

func (f *fixture) read() observed {
	f.Helper()
	status, seen, err := read(f.ctx, f.spec)
	f.must(err)
	now := observed{Status: status, hosts: map[string]string{}, backends: map[string]string{}}
	for name, b := range seen {
		now.hosts[name] = health(b)
	}
	if holders := holders(f.spec.Address, seen); len(holders) > 0 {
		now.holder = holders[0]
		for _, backend := range seen[now.holder].stats {
			now.backends[backend.Name] = backend.Status
		}
	}
	return now
}

// eventually reads until the endpoint is as wanted.
func (f *fixture) eventually(what string, within time.Duration, wanted func(observed) bool) observed {
	f.Helper()
	deadline := time.Now().Add(within)
	for {
		got := f.read()
		if wanted(got) {
			return got
		}
		if time.Now().After(deadline) {
			f.Fatalf("not %s within %s: %+v", what, within, got)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// replicaAddress is where a machine's stand-in listens.
func (f *fixture) replicaAddress(machine string) string {
	return net.JoinHostPort(f.spec.Hosts[machine].Address(), "6443")
}

// installStandIns puts this test binary onto every machine.
func (f *fixture) installStandIns() {
	f.Helper()
	f.bundle = bundles(f.T)[0]
	f.ca = []byte(f.bundle.CA.Certificate)
	pair := servingPair(f.T, f.bundle)
	program, err := os.ReadFile(must(os.Executable()))
	f.must(err)
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		machine := f.spec.Hosts[name]
		_, err := machine.Run(f.ctx, host.Command{
			Script: "cat >/opt/stand-in.new; chmod 755 /opt/stand-in.new; mv /opt/stand-in.new /opt/stand-in",
			Stdin:  bytes.NewReader(program),
		})
		if err != nil {
			return err
		}
		_, err = machine.Apply(f.ctx, host.Change{Files: []host.File{
			{Path: standInPair, Content: []byte(pair.Certificate + pair.PrivateKey), Mode: 0o600},
			{
				Path: "/etc/systemd/system/stand-in.service", Mode: 0o644,
				Content: []byte("[Service]\nEnvironment=" + standInAddress + "=" + f.replicaAddress(name) +
					"\nExecStart=/opt/stand-in\n"),
			},
		}, Script: "systemctl restart stand-in"})
		return err
	}))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestLab is the life of one endpoint on three machines.
func TestLab(t *testing.T) {
	f := newFixture(t)
	f.steps([]step{
		{"a missing package is refused before anything is touched", stepRefusePackages},
		{"packages are installed and go again", stepInstallAndPurge},
		{"of two endpoints on the same hosts one is refused", stepTwoEndpoints},
		{"an address for which the network drops ARP is not created", stepARP},
		{"create", stepCreate},
		{"an address that the network does not pass on", stepUnreached},
		{"both programs run in a sandbox", stepSandbox},
		{"a connection can be matched with what the replica saw", stepConnectionLog},
		{"another cluster's endpoint and replicas are refused", stepOtherEndpoints},
		{"a hostile list of servers is repaired and not executed", stepServers},
		{"no request fails while replicas come and go and HAProxy reloads", stepRotation},
		{"authorities are rotated", stepAuthorities},
		{"at most one replica is out of rotation", stepOneAtATime},
		{"the last serving replica is not drained", stepLastReplica},
		{"drift is found and repaired", stepDrift},
		{"delete is refused while replicas are registered", stepDeleteRefused},
		{"hosts leave and come", stepHosts},
		{"the address leaves a dead HAProxy", stepCrash},
		{"sessions on a dead replica end", stepDeadReplica},
		{"the address leaves a dead machine", stepFailover},
		{"delete leaves clean machines", stepDelete},
	}, "ip -br address; journalctl --no-pager -n 40 -u stand-in; journalctl --no-pager -n 40 -u 'kube-endpoint-*'; "+
		"journalctl --no-pager -o short-precise -n 60 -u kube-endpoint-keepalived; cat /etc/haproxy/kube/20-backends.cfg")
}

// step is a part of a test that needs what those before it leave.
type step struct {
	name string
	run  func(*fixture)
}

// steps runs all as subtests. If one fails, it ends the test, and logs what a script prints on each machine.
func (f *fixture) steps(all []step, script string) {
	f.Helper()
	for _, step := range all {
		ok := f.Run(step.name, func(t *testing.T) {
			sub := *f
			sub.T = t
			step.run(&sub)
			f.spec, f.bundle, f.ca = sub.spec, sub.bundle, sub.ca
		})
		if ok {
			continue
		}
		for _, m := range machines.lab.Machines() {
			output, _ := m.Run(context.WithoutCancel(f.ctx), script)
			f.Logf("%s:\n%s", m.Name, output)
		}
		f.FailNow()
	}
}

// assertClean: nothing of the endpoint is on any machine.
func (f *fixture) assertClean() {
	f.Helper()
	for _, name := range names(f.spec.Hosts) {
		left := f.shell(name, `ls -d /etc/haproxy/kube /opt/kube \
/etc/keepalived/kube.conf /etc/systemd/system/kube-endpoint-* \
			/etc/systemd/system/multi-user.target.wants/kube-endpoint-* /run/kube-endpoint* /var/lib/kube-endpoint 2>/dev/null
			ip -o address | grep -w -e `+labVIP+` -e `+labVIP6+` || true
			systemctl list-units --all --no-legend 'kube-endpoint*'
			pgrep -xl haproxy || true; pgrep -xl keepalived || true`)
		if strings.TrimSpace(left) != "" {
			f.Errorf("left on %s:\n%s", name, left)
		}
	}
}
