package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if machines.missing = whyNoLab(); machines.missing != "" {
		return m.Run()
	}
	config := lab.Config{Name: "drilllab", Subnet: netip.MustParsePrefix("10.63.0.0/24"), Machines: []string{"cp1"}}
	return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
}

func whyNoLab() string {
	dir, err := cache.Dir()
	switch {
	case err != nil:
		return err.Error()
	case testing.Short():
		return "-short leaves the lab out"
	case !testrun.Longer():
		return "only a long test needs the lab"
	case os.Geteuid() != 0:
		return "lab machines need root"
	}
	machines.source = host.Source{Directory: filepath.Join(dir, "components")}
	for _, program := range []string{"kubernetes-v" + pinned("kubernetes") + "/" + release.APIServer, "etcd-v" +
		pinned("etcd") + "/etcd"} {
		if _, err := os.Stat(filepath.Join(machines.source.Directory, program)); err != nil {
			return "a component is not built: " + err.Error()
		}
	}
	return lab.Missing()
}

// pinned returns the version of a set of programs.
func pinned(set string) string {
	version, err := build.Version(set)
	if err != nil {
		panic(err)
	}
	return version
}

// alone is the registrar of a replica that has no endpoint.
type alone struct{}

func (alone) Register(context.Context, string, string) error               { return nil }
func (alone) Drain(context.Context, string) error                          { return nil }
func (alone) DrainForDelete(context.Context, string, bool) error           { return nil }
func (alone) Undrain(context.Context, string) error                        { return nil }
func (alone) Deregister(context.Context, string) error                     { return nil }
func (alone) OutOfRotation(context.Context) (map[string]string, error)     { return nil, nil }
func (alone) Replicas(context.Context) (map[string]string, error)          { return nil, nil }
func (alone) ListedAt(context.Context, string) ([]string, error)           { return nil, nil }
func (alone) Balancers() []host.LeaseTaker                                 { return nil }
func (alone) LeavesByStopping() bool                                       { return false }
func (alone) AgentsReachDrained() bool                                     { return true }
func (alone) Registered(context.Context, string, string) ([]string, error) { return nil, nil }

// stage is a machine with a member and a replica, whose Secrets are encrypted.
type stage struct {
	*testing.T
	ctx  context.Context
	spec Spec

	mu    sync.Mutex
	lines []string // of progress
}

func newStage(t *testing.T) *stage {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	st := &stage{T: t}
	ctx, cancel := context.WithTimeout(problem.WithReport(t.Context(), problem.Report{Progress: st.note}), 14*time.Minute)
	t.Cleanup(cancel)
	st.ctx = ctx
	bundle, err := pki.Generate(pki.Options{
		ClusterName: "lab", Algorithm: pki.ECDSAP256, Now: time.Now(), Deletable: true,
		Supplied: pki.Next{Encryption: pki.Encryption{Kind: pki.Secretbox, Resources: []string{"secrets"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	st.spec = Spec{Member: "cp1", Host: st.connect(), Bundle: bundle}
	st.create()
	st.populate()
	return st
}

func (st *stage) note(line string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.lines = append(st.lines, line)
	st.Log(line)
}

// connect returns the machine through a pool of its own, as another process has it.
func (st *stage) connect() *host.Host {
	st.Helper()
	key, err := machines.lab.PrivateKey()
	if err != nil {
		st.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		st.Fatal(err)
	}
	pool, err := host.NewPool(host.Config{Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known})
	if err != nil {
		st.Fatal(err)
	}
	st.Cleanup(func() { _ = pool.Close() })
	h := pool.Host(host.Target{Address: machines.lab.Machine("cp1").Address.String()})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, err := h.Observe(st.ctx, host.Query{})
		if err == nil {
			return h
		}
		if !errors.Is(err, host.ErrUnreachable) || time.Now().After(deadline) {
			st.Fatal(err)
		}
	}
}

// create creates the member and the replica.
func (st *stage) create() {
	st.Helper()
	h, b := st.spec.Host, st.spec.Bundle
	_, err := etcd.NewClusters().Create(st.ctx, etcd.Spec{
		Spec: machine.Spec{
			Name: "cp1", Host: h, Bundle: b, Version: pinned("etcd"), OnDestroy: machine.Archive, Source: machines.source,
		},
		Peers: map[string]*host.Host{"cp1": h},
	})
	if err != nil {
		st.Fatal(err)
	}
	_, err = controlplane.NewReplicas(func(string) *host.Host { return h }).Create(st.ctx, controlplane.Spec{
		Replica: component.Replica{
			Name: "cp1", Address: h.Address(), Bundle: b, Version: pinned("kubernetes"), EndpointHost: "10.63.0.100",
			EndpointPort: 6443, EtcdURLs: []string{"https://" + h.Address() + ":2379"},
			ServiceCIDRs: []string{"10.96.0.0/12"}, PodCIDRs: []string{"10.244.0.0/16"},
		},
		Host: h, Source: machines.source, Registrar: alone{},
	})
	if err != nil {
		st.Fatal(err)
	}
}

// run runs a script on the machine.
func (st *stage) run(script host.Script) string {
	st.Helper()
	out, err := st.spec.Host.Run(st.ctx, host.Command{Script: script})
	if err != nil {
		st.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// etcdctl is a function of the machine's shell.
const etcdctl host.Script = `c() { /opt/kube/etcd/*/etcdctl --endpoints=https://127.0.0.1:2379 \
  --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
  --key=/etc/kubernetes/pki/etcd/healthcheck-client.key "$@" 2>/dev/null; }
`

// populate makes objects, and saves a snapshot of them as the timer does.
func (st *stage) populate() {
	st.Helper()
	pair, err := st.spec.Bundle.Issue(component.SystemMasters(), time.Now(), time.Hour)
	if err != nil {
		st.Fatal(err)
	}
	_, err = st.spec.Host.Apply(st.ctx, host.Change{Files: []host.File{
		{Path: "/root/admin.crt", Content: []byte(pair.Certificate), Mode: 0o600},
		{Path: "/root/admin.key", Content: []byte(pair.PrivateKey), Mode: 0o600},
	}})
	if err != nil {
		st.Fatal(err)
	}
	st.objects("secrets", "a", 40)
	st.objects("configmaps", "a", 30)
	st.save()
}

// objects creates objects of a resource.
func (st *stage) objects(resource, prefix string, n int) {
	st.Helper()
	_, err := st.spec.Host.Run(st.ctx, host.Command{
		Vars: map[string]string{
			"resource": resource, "prefix": prefix, "n": fmt.Sprint(n), "api": "https://" + st.spec.Host.Address() + ":6443",
		},
		Script: `i=0
while [ $i -lt "$n" ]; do
  curl --silent --fail --insecure --cert /root/admin.crt --key /root/admin.key \
    --header 'Content-Type: application/json' --data "{\"metadata\":{\"name\":\"$prefix$i\"}}" \
    "$api/api/v1/namespaces/default/$resource" >/dev/null
  i=$((i + 1))
done
`,
	})
	if err != nil {
		st.Fatal(err)
	}
}

// save saves a snapshot where the timer does.
func (st *stage) save() {
	st.Helper()
	st.run(etcdctl + `mkdir -p /var/lib/etcd-archive/scheduled
chmod 0700 /var/lib/etcd-archive
c snapshot save "/var/lib/etcd-archive/scheduled/$(date -u +%Y%m%dT%H%M%SZ)-cp1.db" >/dev/null
`)
}

// nothingLeft expects no unit, no data and no key of a drill.
func (st *stage) nothingLeft() {
	st.Helper()
	left := st.run(`ls -d /run/kube-restore-drill /var/lib/etcd-archive/drill /run/systemd/system.control/kubedrill* \
  2>/dev/null || true
systemctl list-units --all --plain --no-legend 'kube-restore-drill*' 'kubedrill*' | grep -v ' not-found ' || true
ss -Hltn 'sport >= 36443 and sport < 36463'
`)
	if left != "" {
		st.Errorf("the drill has left:\n%s", left)
	}
}
