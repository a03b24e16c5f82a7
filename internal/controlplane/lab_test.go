package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// The versions under test are the defaults.
var (
	labVersion  = pinned("kubernetes")
	etcdVersion = pinned("etcd")
)

// pinned returns the version of a set of programs.
func pinned(set string) string {
	version, err := build.Version(set)
	if err != nil {
		panic(err)
	}
	return version
}

// machines is the lab of this package's tests; missing is the reason if there is none.
var machines struct {
	lab     *lab.Lab
	source  host.Source
	missing string
}

// TestMain moves the tests into a lab's network if this computer can run one.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if machines.missing = whyNoLab(); machines.missing != "" {
		return m.Run()
	}
	config := lab.Config{Name: "cplab", Subnet: netip.MustParsePrefix("10.94.0.0/24"), Machines: []string{"cp1", "cp2"}}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

func whyNoLab() string {
	dir, err := cache.Dir()
	switch {
	case err != nil:
		return err.Error()
	case testing.Short():
		return "-short leaves the lab out"
	case os.Geteuid() != 0:
		return "lab machines need root"
	}
	machines.source = host.Source{Directory: filepath.Join(dir, "components")}
	for _, program := range []string{
		"kubernetes-v" + labVersion + "/" + release.APIServer, "etcd-v" + etcdVersion + "/etcd",
	} {
		if _, err := os.Stat(filepath.Join(machines.source.Directory, program)); err != nil {
			return "a component is not built: " + err.Error()
		}
	}
	return lab.Missing()
}

// recordingRegistrar replaces an endpoint and records its calls. The real one is tested with
// HAProxy in package endpoint.
type recordingRegistrar struct {
	mu      sync.Mutex
	calls   []string
	members map[string]string
	fail    error // returned by Drain, DrainForDelete and Deregister
	last    bool  // DrainForDelete answers that no other replica serves unless that is allowed
	out     map[string]string
	others  map[string]string
	drains  func(name string) // called when a replica is drained

	balancers []host.LeaseTaker
	unasked   error // no load balancer answers
	announces bool  // the address leads only to replicas in rotation
}

func (r *recordingRegistrar) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recordingRegistrar) Register(_ context.Context, name, address string) error {
	r.note("register")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[name] = address
	return nil
}

func (r *recordingRegistrar) Drain(_ context.Context, name string) error {
	r.note("drain")
	if r.drains != nil {
		r.drains(name)
	}
	return r.fail
}

func (r *recordingRegistrar) DrainForDelete(_ context.Context, name string, lastAllowed bool) error {
	r.note("drain for delete")
	if r.drains != nil {
		r.drains(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last && !lastAllowed {
		return &lastRefusal{
			&problem.Problem{
				Summary: "not taken out", Cause: "it is the last replica that serves", Unchanged: problem.Nothing,
				Detail: "NAME STATE",
			},
		}
	}
	return r.fail
}

// lastRefusal is like that of a real registrar.
type lastRefusal struct{ *problem.Problem }

func (l *lastRefusal) Unwrap() error     { return l.Problem }
func (l *lastRefusal) LastServing() bool { return true }

func (r *recordingRegistrar) Undrain(context.Context, string) error {
	r.note("undrain")
	return nil
}

func (r *recordingRegistrar) Balancers() []host.LeaseTaker { return r.balancers }

func (r *recordingRegistrar) LeavesByStopping() bool { return false }

func (r *recordingRegistrar) AgentsReachDrained() bool { return !r.announces }

func (r *recordingRegistrar) Deregister(_ context.Context, name string) error {
	r.note("deregister")
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, name)
	return r.fail
}

func (r *recordingRegistrar) Registered(_ context.Context, name, address string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members[name] != address {
		return []string{"not registered on lb1"}, nil
	}
	return nil, nil
}

func (r *recordingRegistrar) OutOfRotation(context.Context) (map[string]string, error) {
	return r.out, nil
}

func (r *recordingRegistrar) Replicas(context.Context) (map[string]string, error) {
	if r.unasked != nil {
		return nil, r.unasked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.members)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, r.others)
	return all, nil
}

func (r *recordingRegistrar) ListedAt(ctx context.Context, name string) ([]string, error) {
	all, err := r.Replicas(ctx)
	at, none := netip.ParseAddrPort(all[name])
	if none != nil {
		return nil, err
	}
	return []string{at.Addr().String()}, err
}

// take returns the calls so far and clears them.
func (r *recordingRegistrar) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// stage is one machine with an etcd and the replica that the test creates there.
type stage struct {
	*testing.T
	ctx       context.Context
	spec      Spec
	registrar *recordingRegistrar
	replicas  *Replicas

	key, known string // to connect to the machine
}

func newStage(t *testing.T) *stage {
	st := newBareStage(t)
	st.startEtcd(st.spec.Host.Address())
	return st
}

// newBareStage returns a stage without etcd.
func newBareStage(t *testing.T) *stage {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	ctx, cancel := context.WithTimeout(problem.WithReport(t.Context(), problem.Report{Progress: progress(t)}),
		15*time.Minute)
	t.Cleanup(cancel)
	key, err := machines.lab.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.Generate(pki.Options{ClusterName: "lab", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	address := machines.lab.Machine("cp1").Address.String()
	registrar := &recordingRegistrar{members: map[string]string{}}
	st := &stage{T: t, ctx: ctx, registrar: registrar, spec: Spec{
		Replica: component.Replica{
			Name:         "cp1",
			Address:      address,
			Bundle:       bundle,
			Version:      labVersion,
			EndpointHost: "10.94.0.100",
			EndpointPort: 6443,
			EtcdURLs:     []string{"https://" + address + ":2379"},
			ServiceCIDRs: []string{"10.96.0.0/12"},
			PodCIDRs:     []string{"10.244.0.0/16"},
		},
		Host:      testHost(t, host.Config{Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known}, address),
		Source:    machines.source,
		Registrar: registrar,
	}}
	st.replicas = NewReplicas(func(string) *host.Host { return st.spec.Host })
	st.key, st.known = key, known
	t.Cleanup(st.removeReplicaOfAFailedTest)
	st.reached()
	return st
}

// reached waits until the machine, which has just booted, can be observed.
func (st *stage) reached() {
	st.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(pollInterval) {
		_, err := st.spec.Host.Observe(st.ctx, host.Query{})
		if err == nil {
			return
		}
		if !errors.Is(err, host.ErrUnreachable) || time.Now().After(deadline) {
			st.Fatal(err)
		}
		st.Logf("not reached yet: %v", err)
	}
}

// progress logs each step with the time since the last one.
func progress(t *testing.T) func(string) {
	var mu sync.Mutex
	last := time.Now()
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		t.Logf("+%.2fs %s", time.Since(last).Seconds(), line)
		last = time.Now()
	}
}

// startEtcd starts a single etcd member: the package under test imports no etcd package.
func (st *stage) startEtcd(address string) {
	st.Helper()
	st.run("systemctl stop etcd.service 2>/dev/null || :; rm -rf /var/lib/etcd") // of an earlier test
	etcd := host.Artifact{Product: "etcd", Version: etcdVersion, Name: "etcd"}
	ctl := host.Artifact{Product: "etcd", Version: etcdVersion, Name: "etcdctl"}
	if _, err := st.spec.Host.Install(st.ctx, machines.source, []host.Artifact{etcd, ctl}); err != nil {
		st.Fatal(err)
	}
	pair, err := st.spec.Bundle.Issue(pki.EtcdServer("cp1", address), time.Now(), 0)
	if err != nil {
		st.Fatal(err)
	}
	unit := fmt.Sprintf(`[Service]
Type=notify
ExecStart=%s --data-dir=/var/lib/etcd --listen-client-urls=https://%s:2379 --advertise-client-urls=https://%s:2379 \
  --cert-file=%s/server.crt --key-file=%s/server.key --trusted-ca-file=%s --client-cert-auth
[Install]
WantedBy=multi-user.target
`, etcd.Path(), address, address, component.EtcdDir, component.EtcdDir, component.EtcdCA)
	_, err = st.spec.Host.Apply(st.ctx, host.Change{
		Dirs: append(component.Directories(), host.Dir{Path: component.EtcdDir, Mode: 0o755}),
		Files: []host.File{
			{Path: component.EtcdCA, Content: []byte(st.spec.Bundle.EtcdCA.Certificate), Mode: component.PublicMode},
			{Path: component.EtcdDir + "/server.crt", Content: []byte(pair.Certificate), Mode: component.PublicMode},
			{Path: component.EtcdDir + "/server.key", Content: []byte(pair.PrivateKey), Mode: component.SecretMode},
			{Path: machine.EtcdUnit, Content: []byte(unit), Mode: component.PublicMode},
		},
		Script: "systemctl enable --quiet --now etcd.service",
	})
	if err != nil {
		st.Fatal(err)
	}
}

// pids returns the components' processes.
func (st *stage) pids() map[string]int {
	st.Helper()
	pids := map[string]int{}
	for name, state := range st.units() {
		pids[name] = state.MainPID
	}
	return pids
}

func (st *stage) units() map[string]host.UnitState {
	st.Helper()
	facts, err := st.spec.Host.Observe(st.ctx, host.Query{Units: unit.Names()})
	if err != nil {
		st.Fatal(err)
	}
	states := map[string]host.UnitState{}
	for _, name := range release.Components() {
		states[name] = facts.Units[unit.Name(name)]
	}
	return states
}

// restarted returns the components whose process differs from before, without those that ended by themselves, as a
// scheduler does whose API server starts for so long that it cannot renew its lease.
func (st *stage) restarted(before map[string]int) []string {
	st.Helper()
	var out []string
	for name, state := range st.units() {
		if state.MainPID != before[name] && state.Restarts == 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (st *stage) run(script string) string {
	st.Helper()
	out, err := st.spec.Host.Run(st.ctx, host.Command{Script: host.Script(script)})
	if err != nil {
		st.Fatal(err)
	}
	return out
}

func (st *stage) steady(status Status, err error) {
	st.Helper()
	if err != nil {
		st.Fatal(err)
	}
	if len(status.Drift) > 0 || !status.Registered || status.MachineID == "" ||
		status.ConfigDigest != st.spec.ConfigDigest() {
		st.Errorf("status is %+v", status)
	}
	for _, c := range status.Components {
		if !c.Healthy || c.Version != st.spec.Version || time.Until(c.CertificateExpiry) < 300*24*time.Hour {
			st.Errorf("component is %+v", c)
		}
	}
}

func (st *stage) expect(what string, have, want any) {
	st.Helper()
	if !reflect.DeepEqual(have, want) {
		st.Errorf("%s: %v, want %v", what, have, want)
	}
}

// httpsClient returns a client for the replica's API server, which trusts the authorities of b. It
// connects through SSH.
func (st *stage) httpsClient(b *pki.Bundle, certificates ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.Known(pki.Kubernetes)))
	web := &http.Client{Transport: &http.Transport{DialContext: st.spec.Host.Dial, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: st.spec.Address, Certificates: certificates,
	}}}
	st.Cleanup(web.CloseIdleConnections)
	return web
}

// removeReplicaOfAFailedTest deletes the replica on cp1, so that the next test finds a bare machine.
func (st *stage) removeReplicaOfAFailedTest() {
	if !st.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := st.replicas.Delete(ctx, st.spec, DeleteOptions{}); err != nil {
		st.Logf("the replica of the failed test stays on %s: %v", st.spec.Name, err)
	}
}
