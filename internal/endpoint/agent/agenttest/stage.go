package agenttest

import (
	"bytes"
	"context"
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
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
)

// Lab is the lab of a package's tests; Missing says why there is none.
type Lab struct {
	*lab.Lab
	Missing string
}

// RunTests runs the tests of a package in a lab's network, in which nothing can be built. missing is what the lab needs
// and this computer lacks, if that is known.
func (l *Lab) RunTests(m *testing.M, config lab.Config, missing string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	switch {
	case testing.Short():
		l.Missing = "-short leaves the lab out"
	case !testrun.Longer():
		l.Missing = "make test-long runs the tests with a lab"
	case missing != "":
		l.Missing = missing
	default:
		l.Missing = lab.Missing()
	}
	if l.Missing != "" {
		return m.Run()
	}
	for _, program := range []string{"gobgpd", "gobgp"} {
		if _, err := build.Set(ctx, program); err != nil {
			fmt.Fprintln(os.Stderr, "build the router:", err)
			return 1
		}
	}
	return lab.RunTests(ctx, config, m, func(made *lab.Lab) { l.Lab = made })
}

// Stage is a lab as the tests of one endpoint see it: machines with stand-ins for API servers, and a router.
type Stage struct {
	*testing.T            // of one step
	Whole      *testing.T // of all
	Ctx        context.Context
	Lab        *Lab
	Pool       *host.Pool
	Router     *Router
	Replicas   map[string]bool // the machines that have a replica
	Listen     string          // where the stand-ins listen
	// Registration returns the endpoint's.
	Registration func() endpoint.Registration
}

// NewStage returns a stage without stand-ins and router. around may be nil.
func NewStage(t *testing.T, l *Lab, around host.Around, registration func() endpoint.Registration) *Stage {
	t.Helper()
	if l.Lab == nil {
		testrun.Missing(t, "no lab: "+l.Missing)
	}
	key, err := l.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := l.KnownHosts()
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
	return &Stage{
		T: t, Whole: t, Lab: l, Pool: pool, Replicas: map[string]bool{}, Listen: "0.0.0.0:6443",
		Registration: registration,
		Ctx:          problem.WithReport(t.Context(), problem.Report{Progress: func(line string) { t.Log(line) }}),
	}
}

// Observer observes the machines, with a stand-in for the record of a replica, which package controlplane writes.
func (s *Stage) Observer() *targets.Observer {
	return targets.NewObserver(s.Host, s.Recorded)
}

// Host returns the machine at an address.
func (s *Stage) Host(address string) *host.Host { return s.Pool.Host(host.Target{Address: address}) }

// Recorded returns the replica on the machine at an address.
func (s *Stage) Recorded(ctx context.Context, address string) (targets.Replica, error) {
	if _, err := s.Host(address).Run(ctx, host.Command{Script: "true"}); err != nil {
		return targets.Replica{}, err
	}
	r := s.Registration()
	for name, at := range r.Hosts {
		if at == address && s.Replicas[name] {
			return targets.Replica{Name: name, Port: 6443, ClusterID: r.ClusterID, Endpoints: []string{r.ID()}}, nil
		}
	}
	return targets.Replica{}, nil
}

// At returns where the API server of a replica listens.
func (s *Stage) At(name string) string { return net.JoinHostPort(s.Registration().Hosts[name], "6443") }

// Names returns the names of the replicas, sorted.
func (s *Stage) Names() []string { return slices.Sorted(maps.Keys(s.Registration().Hosts)) }

// Must ends the step at an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Shell runs a script on a machine past the code under test.
func (s *Stage) Shell(machine, script string) string {
	s.Helper()
	output, err := s.Lab.Machine(machine).Run(s.Ctx, script)
	if err != nil {
		s.Fatalf("%s: %v\n%s", machine, err, output)
	}
	return output
}

// On returns a function that runs a script on a machine.
func (s *Stage) On(machine, script string) func() error {
	return func() error { _, err := s.Lab.Machine(machine).Run(s.Ctx, script); return err }
}

// Prefix returns what the machines announce.
func (s *Stage) Prefix() string {
	address, err := netip.ParseAddr(s.Registration().Address)
	s.Must(err)
	return netip.PrefixFrom(address, address.BitLen()).String()
}

// Routed reports whether the router's routes to the endpoint lead to exactly these machines. It must have no other
// route.
func (s *Stage) Routed(names ...string) bool {
	routes, err := s.Router.Routes()
	s.Must(err)
	for prefix := range routes {
		if prefix != s.Prefix() {
			s.Fatalf("the router has learned %s", prefix)
		}
	}
	hosts := s.Registration().Hosts
	var want []string
	for _, name := range names {
		want = append(want, hosts[name])
	}
	slices.Sort(want)
	return slices.Equal(routes[s.Prefix()], want)
}

// Within waits until the routes lead to exactly these machines, and returns how long that took.
func (s *Stage) Within(limit time.Duration, names ...string) time.Duration {
	s.Helper()
	started := time.Now()
	for !s.Routed(names...) {
		if time.Since(started) > limit {
			routes, _ := s.Router.Routes()
			s.Fatalf("the routes are %v after %s, want those to %v", routes, limit, names)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(started)
}

// After does something to a machine, and logs and records how long it takes until only the others have a route.
func (s *Stage) After(event string, limit time.Duration, do func() error, others ...string) {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	took := s.Within(limit, others...)
	s.Logf("%s: the route is gone after %d ms", event, took.Milliseconds())
	testrun.Record(s.T, jsonfile.Milliseconds(s.Whole.Name()+": "+event, limit, took))
	s.Must(<-done)
}

// InstallStandIns puts this test binary, which is the stand-in, onto every machine.
func (s *Stage) InstallStandIns() {
	s.Helper()
	self, err := os.Executable()
	s.Must(err)
	program, err := os.ReadFile(self)
	s.Must(err)
	hosts := s.Registration().Hosts
	for _, name := range s.Names() {
		machine := s.Host(hosts[name])
		_, err := machine.Run(s.Ctx, host.Command{
			Script: "cat >/opt/stand-in.new; chmod 755 /opt/stand-in.new; mv /opt/stand-in.new /opt/stand-in",
			Stdin:  bytes.NewReader(program),
		})
		s.Must(err)
		_, err = machine.Apply(s.Ctx, host.Change{Files: []host.File{{
			Path: "/etc/systemd/system/stand-in.service", Mode: 0o644,
			Content: []byte("[Service]\nEnvironment=" + StandInAddress + "=" + s.Listen + " " + StandInName + "=" + name +
				"\nExecStart=/opt/stand-in\n[Install]\nWantedBy=multi-user.target\n"),
		}}, Script: "systemctl restart stand-in"})
		s.Must(err)
		s.Replicas[name] = true
	}
}

// Neighbors accepts sessions from all machines, with a password unless it is "".
func (s *Stage) Neighbors(password string) string {
	text, hosts := "", s.Registration().Hosts
	for _, name := range s.Names() {
		text += fmt.Sprintf(Neighbor, hosts[name], password)
	}
	return text
}

// AssertClean checks that nothing of the endpoint is on any machine. directories are its own, and programs print what
// is left of its programs.
func (s *Stage) AssertClean(directories, programs string) {
	s.Helper()
	for _, name := range s.Names() {
		left := s.Shell(name, "ls -d "+directories+` /opt/kube /etc/systemd/system/*kube-endpoint* \
/etc/systemd/system/multi-user.target.wants/kube-endpoint-* /run/kube-endpoint* 2>/dev/null
ip -o address show to `+s.Prefix()+`
systemctl list-units --all --no-legend 'kube-endpoint*'
`+programs+`
cat /proc/sys/net/ipv4/conf/eth0/arp_ignore /proc/sys/net/ipv4/conf/eth0/arp_announce | grep -v '^0' || true`)
		if len(bytes.TrimSpace([]byte(left))) > 0 {
			s.Errorf("left on %s:\n%s", name, left)
		}
	}
}

// ExpectAnnounced runs a round of the facts of a replica on its machine, which say whether it announces the address.
func (s *Stage) ExpectAnnounced(machine string, announced map[string]string, want string) {
	s.Helper()
	address := s.Registration().Address
	w := textfile.Writer{
		Resource: "kube_control_plane_replica", Name: "facts-of-test", Script: "/root/facts.sh",
		Directory: "/run/facts-of-test", Period: time.Minute,
		Announced: []textfile.Announced{{Address: address, By: announced[address]}},
	}
	var script string
	for _, file := range w.Job().Files {
		if file.Path == w.Script {
			script = string(file.Content)
		}
	}
	out := s.Shell(machine, "mkdir -p "+w.Directory+"\ncat >"+w.Script+" <<'END_OF_SCRIPT'\n"+script+
		"END_OF_SCRIPT\n/bin/sh -eu "+w.Script+"\ncat "+w.Output()+"\nrm -r "+w.Directory+" "+w.Script)
	if line := `,address="` + address + `"} ` + want + "\n"; !strings.Contains(out, "kube_endpoint_announced{") ||
		!strings.Contains(out, line) {
		s.Errorf("%s: %q is not among the facts\n%s", machine, line, out)
	}
}

// Step runs one part of the test. If it fails, it logs what a script prints on each machine, and ends the test.
func (s *Stage) Step(name, script string, run func()) {
	ok := s.Whole.Run(name, func(t *testing.T) {
		s.T = t
		defer func() { s.T = s.Whole }()
		run()
	})
	if ok {
		return
	}
	for _, m := range s.Lab.Machines() {
		output, _ := m.Run(context.Background(), script)
		s.Logf("%s:\n%s", m.Name, output)
	}
	s.FailNow()
}
