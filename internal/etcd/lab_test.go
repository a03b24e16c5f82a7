package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// withinLab is the variable with the lab in whose network the test binary was restarted.
const withinLab = "ETCD_TEST_WITHIN_LAB"

// components is the local artifact source: etcd-v3.6.16/etcd and its tools.
func components() string {
	if dir := os.Getenv("KUBE_COMPONENTS"); dir != "" {
		return dir
	}
	dir, err := cache.Dir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "components")
}

// TestOnMachines runs the package on machines with real systemd, sshd and etcd. It
// restarts itself within the lab's network, where no packet leaves the computer.
func TestOnMachines(t *testing.T) {
	onMachines(t, "etcdlab", "10.93.0.0/24", []string{newRelease}, testOnMachines)
}

// onMachines runs a test within the network of a lab of its own, with releases of etcd
// that have been built.
func onMachines(t *testing.T, name, subnet string, versions []string, test func(*testing.T)) {
	t.Helper()
	onLab(t, lab.Config{Name: name, Subnet: netip.MustParsePrefix(subnet), Machines: everyone}, versions, test)
}

func onLab(t *testing.T, config lab.Config, versions []string, test func(*testing.T)) {
	t.Helper()
	if os.Getenv(withinLab) != "" {
		test(t)
		return
	}
	testrun.Slow(t)
	if missing := lab.Missing(); missing != "" {
		testrun.Missing(t, missing)
	}
	for _, version := range versions {
		if _, err := os.Stat(filepath.Join(components(), "etcd-v"+version, "etcd")); err != nil {
			testrun.Missing(t, "etcd ", version, " is not built: ", err)
		}
	}
	l, destroy, err := lab.New(t.Context(), config)
	t.Cleanup(func() {
		if err := destroy(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inside := l.Command(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	inside.Env = append(os.Environ(), withinLab+"="+l.Name)
	out, err := inside.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// counted counts the round trips to a machine.
type counted struct {
	machine.Machine
	trips *atomic.Int64
}

func (c counted) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	c.trips.Add(1)
	return c.Machine.Observe(ctx, q)
}

func (c counted) Change(ctx context.Context, change host.Change, a machine.Action) (host.Applied, error) {
	c.trips.Add(1)
	return c.Machine.Change(ctx, change, a)
}

func (c counted) Install(ctx context.Context, src host.Source, a []host.Artifact) ([]host.Artifact, error) {
	c.trips.Add(1)
	return c.Machine.Install(ctx, src, a)
}

// rig is the lab as this test uses it.
type rig struct {
	t        *testing.T
	lab      *lab.Lab
	clusters *Clusters
	trips    *atomic.Int64
	specs    map[string]Spec
	cutOff   string // the machine that is cut off from the network
	limit    time.Duration
}

var everyone = []string{"cp1", "cp2", "cp3"}

func newRig(t *testing.T) *rig { return newRigAround(t, nil) }

// newRigAround returns a rig that calls the function around each remote command.
func newRigAround(t *testing.T, around func(*lab.Lab) host.Around) *rig {
	l, err := lab.Open(os.Getenv(withinLab))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.Generate(pki.Options{
		ClusterName: "lab", Algorithm: pki.ECDSAP256, Now: time.Now(),
		Deletable: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if around == nil {
		return newProcess(t, l, bundle)
	}
	return newProcessAround(t, l, bundle, around(l))
}

// newProcess simulates another process, with its own connections and coordinator.
func newProcess(t *testing.T, l *lab.Lab, bundle *pki.Bundle) *rig {
	t.Helper()
	return newProcessAround(t, l, bundle, nil)
}

func newProcessAround(
	t *testing.T, l *lab.Lab, bundle *pki.Bundle, around host.Around,
) *rig {
	t.Helper()
	key, err := l.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := l.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := host.NewPool(host.Config{
		Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known, Around: around,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	r := &rig{t: t, lab: l, trips: new(atomic.Int64), specs: map[string]Spec{}}
	r.clusters = NewClusters()
	r.clusters.machine = func(h *host.Host) machine.Machine { return counted{machine.SSH{Host: h}, r.trips} }
	peers := map[string]*host.Host{}
	for i, name := range everyone {
		peers[name] = pool.Host(host.Target{Address: address(l, i)})
	}
	for _, name := range everyone {
		r.specs[name] = Spec{
			Spec: machine.Spec{
				Name: name, Host: peers[name], Bundle: bundle, Version: newRelease,
				OnDestroy: machine.Archive, Source: host.Source{Directory: components()},
			},
			Peers: peers,
		}
	}
	return r
}

// address returns the address of the i-th machine of a lab.
func address(l *lab.Lab, i int) string {
	a := l.Subnet.Addr()
	for range 11 + i {
		a = a.Next()
	}
	return a.String()
}

func (r *rig) all(what string, f func(context.Context, Spec) error) {
	r.t.Helper()
	r.only(everyone, what, f)
}

// only runs f for the members in parallel and reports time and round trips.
func (r *rig) only(names []string, what string, f func(context.Context, Spec) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), max(r.limit, 3*time.Minute))
	defer cancel()
	begin := time.Now()
	ctx = problem.WithReport(ctx, problem.Report{Progress: func(line string) {
		r.t.Logf("  %6dms %s", time.Since(begin).Milliseconds(), line)
	}})
	r.trips.Store(0)
	errs := together(r.t, r.specs, func(s Spec) error { return f(ctx, s) }, names...)
	r.t.Logf("%s: %s, %d round trips", what, time.Since(begin).Round(time.Millisecond), r.trips.Load())
	for name, err := range errs {
		if err != nil {
			r.t.Fatalf("%s %s: %v", what, name, err)
		}
	}
}

func (r *rig) sh(name, script string) string {
	r.t.Helper()
	out, err := r.lab.Machine(name).Run(r.t.Context(), script)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) create(ctx context.Context, s Spec) error {
	status, err := r.clusters.Create(ctx, s)
	if err == nil && (!status.Healthy || len(status.Drift) > 0 || status.ConfigDigest != machine.WantedDigest(s.Spec)) {
		err = fmt.Errorf("created as %+v", status)
	}
	return err
}

func (r *rig) delete(ctx context.Context, s Spec) error {
	return r.clusters.Delete(ctx, s, DeleteOptions{})
}

// same reads a member that must not differ.
func (r *rig) same(ctx context.Context, s Spec) error {
	status, err := r.clusters.Read(ctx, s)
	if err == nil && (!status.Healthy || len(status.Drift) > 0 || status.Version != s.Version ||
		status.ConfigDigest != machine.WantedDigest(s.Spec)) {
		err = fmt.Errorf("read as %+v", status)
	}
	return err
}

func testOnMachines(t *testing.T) {
	r := newRig(t)
	r.all("create, with upload", r.create)
	r.all("read", r.same)
	r.all("update without a change", func(ctx context.Context, s Spec) error {
		_, err := r.clusters.Update(ctx, s)
		return err
	})
	for _, name := range everyone {
		if started := r.sh(name, "systemctl show --property=NRestarts --value etcd"); strings.TrimSpace(started) != "0" {
			t.Errorf("%s: etcd was restarted %s times", name, started)
		}
	}
	r.drift()
	r.rotate()
	r.schedule()
	r.all("destroy", r.delete)
	r.clean()
	r.afterSchedule()

	r.process() // a process does not bootstrap after it has seen a cluster
	r.ownDisk()
	r.grow()
	r.fill()
	data := r.sh("cp1", "stat -c %d:%i /var/lib/etcd/member/snap/db")
	r.all("destroy", r.delete)
	r.renamed(data)
	r.clean()
}

// TestTwoProcessesOnMachines creates, changes and destroys members of one bundle in two processes at the same time.
func TestTwoProcessesOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdtwo", "10.55.0.0/24", []string{newRelease}, func(t *testing.T) {
		r := newRig(t)
		r.twoProcesses()
		r.clean()
	})
}

func (r *rig) twoProcesses() {
	r.t.Helper()
	bundle := r.specs["cp1"].Bundle
	one, other := newProcess(r.t, r.lab, bundle), newProcess(r.t, r.lab, bundle)
	process := map[string]*rig{"cp1": one, "cp2": other, "cp3": other}
	r.all("create by two processes", func(ctx context.Context, s Spec) error {
		return process[s.Name].create(ctx, process[s.Name].specs[s.Name])
	})
	ids := map[string]bool{}
	for _, name := range everyone {
		ids[r.sh(name, `sed -n 's/.*"etcd_cluster_id": "\([0-9a-f]*\)".*/\1/p' /etc/etcd/member.json`)] = true
	}
	if len(ids) != 1 {
		r.t.Fatalf("the members belong to the clusters %v", ids)
	}
	r.all("roll out a flag by two processes", func(ctx context.Context, s Spec) error {
		p := process[s.Name]
		changed := p.specs[s.Name]
		changed.ExtraArgs = map[string]string{"max-txn-ops": "512"}
		p.specs[s.Name] = changed
		_, err := p.clusters.Update(ctx, changed)
		return err
	})
	r.all("read", func(ctx context.Context, s Spec) error {
		return process[s.Name].same(ctx, process[s.Name].specs[s.Name])
	})
	r.all("destroy by two processes", func(ctx context.Context, s Spec) error {
		return process[s.Name].delete(ctx, process[s.Name].specs[s.Name])
	})
}

// grow creates a cluster of two, joins the third machine, and rolls out a flag.
func (r *rig) grow() {
	r.t.Helper()
	for name, s := range r.specs {
		s.ExtraArgs = map[string]string{"quota-backend-bytes": "16777216"}
		r.specs[name] = s
	}
	r.only([]string{"cp1", "cp2"}, "create two", r.create)
	r.only([]string{"cp3"}, "join", r.create)
	for name, s := range r.specs {
		s.ExtraArgs = map[string]string{"quota-backend-bytes": "16777216", "max-txn-ops": "256"}
		r.specs[name] = s
	}
	r.all("roll out a flag", func(ctx context.Context, s Spec) error {
		_, err := r.clusters.Update(ctx, s)
		return err
	})
	r.all("read", r.same)
}

// fill writes until the quota refuses a write, and has the reported drift repaired.
func (r *rig) fill() {
	r.t.Helper()
	put := `put() {
  ETCDCTL_API=3 /opt/kube/etcd/` + newRelease + `/etcdctl --endpoints=https://10.93.0.12:2379 \
    --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --key=/etc/kubernetes/pki/etcd/healthcheck-client.key put "$@"
}
`
	r.sh("cp2", put+`head -c 1000000 /dev/zero | tr '\0' x >/tmp/value
for i in $(seq 100); do
  put key$((i % 3)) </tmp/value >/dev/null 2>/tmp/refused || break
done
grep 'database space exceeded' /tmp/refused
rm /tmp/value /tmp/refused`)
	var alarmed []string
	for _, name := range everyone {
		status, err := r.clusters.Read(r.t.Context(), r.specs[name])
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(strings.Join(status.Drift, "\n"), name+": alarm NOSPACE is raised: the database size is ") {
			alarmed = append(alarmed, name)
		}
		r.t.Logf("  %s", strings.Join(status.Drift, "\n  "))
	}
	if len(alarmed) == 0 {
		r.t.Fatal("no member shows the alarm")
	}
	r.only(alarmed, "repair NOSPACE", func(ctx context.Context, s Spec) error {
		status, err := r.clusters.Update(ctx, s)
		if err == nil && len(status.Drift) > 0 {
			err = fmt.Errorf("left as %v", status.Drift)
		}
		return err
	})
	r.sh("cp2", put+"put key0 accepted")
	r.all("read", r.same)
}

// drift disturbs one machine, checks the reported drift, and repairs it.
func (r *rig) drift() {
	r.t.Helper()
	s := r.specs["cp2"]
	r.sh("cp2", `systemctl disable --now --quiet etcd
sed -i 's/--snapshot-count=[0-9]*//; s/^RestartSec=.*/RestartSec=30/
s/--watch-progress-notify-interval=5s/--watch-progress-notify-interval=9s/' /etc/systemd/system/etcd.service
chmod 0644 /etc/kubernetes/pki/etcd/server.key`)
	status, err := r.clusters.Read(r.t.Context(), s)
	words := strings.Join(status.Drift, "\n")
	for _, want := range []string{
		"etcd.service is inactive, wanted active", "etcd.service is disabled, wanted enabled",
		`flag --watch-progress-notify-interval is "9s", wanted "5s"`, "RestartSec=30", "server.key has mode 0644",
	} {
		if !strings.Contains(words, want) {
			r.t.Errorf("drift lacks %q:\n%s (%v)", want, words, err)
		}
	}
	begin := time.Now()
	status, err = r.clusters.Update(r.t.Context(), s)
	if err != nil || len(status.Drift) > 0 {
		r.t.Fatalf("repair: %v, %v", status.Drift, err)
	}
	r.t.Logf("repair of a stopped member: %s", time.Since(begin).Round(time.Millisecond))

	// What systemd or etcd has not read is undone without a restart.
	const process = "systemctl show --property=MainPID,NeedDaemonReload etcd"
	before := r.sh("cp2", process)
	for _, reload := range []string{"", "systemctl daemon-reload"} {
		r.sh("cp2", "sed -i 's/^RestartSec=.*/RestartSec=30/' /etc/systemd/system/etcd.service\n"+reload)
		status, err = r.clusters.Update(r.t.Context(), s)
		if after := r.sh("cp2", process); err != nil || len(status.Drift) > 0 || after != before {
			r.t.Errorf("repair of a unit that etcd has not read: %v, left %v; %s, before %s", err, status.Drift, after, before)
		}
	}
}

// rotate moves the members to another authority, stage by stage. In the second stage none
// is restarted.
func (r *rig) rotate() {
	r.t.Helper()
	const process = "systemctl show --property=MainPID etcd"
	for generation := 1; generation <= 3; generation++ {
		r.t.Logf("  generation %d", generation)
		bundle := etcdtest.Rotated(r.t, r.specs["cp1"].Bundle, generation)
		before := map[string]string{}
		for name, s := range r.specs {
			s.Bundle = bundle
			r.specs[name], before[name] = s, r.sh(name, process)
		}
		r.all("rotate", func(ctx context.Context, s Spec) error {
			_, err := r.clusters.Update(ctx, s)
			return err
		})
		r.all("read", r.same)
		for name := range r.specs {
			if restarted := r.sh(name, process) != before[name]; restarted != (generation != 2) {
				r.t.Errorf("generation %d: %s was restarted: %v", generation, name, restarted)
			}
		}
	}
}

// clean checks that nothing but the archive is left.
func (r *rig) clean() {
	r.t.Helper()
	for _, name := range everyone {
		left := r.sh(name, `for p in /etc/etcd /etc/systemd/system/etcd.service \
  /etc/systemd/system/timers.target.wants/etcd* /etc/kubernetes /var/lib/etcd /opt/kube; do
  [ ! -e $p ] || echo $p
done
getent passwd etcd || true
pgrep -x etcd || true`)
		if strings.TrimSpace(left) != "" {
			r.t.Errorf("%s still has:\n%s", name, left)
		}
		if r.sh(name, "ls /var/lib/etcd-archive/*/member/snap/db | head -n 1; stat -c %a:%U /var/lib/etcd-archive") == "" {
			r.t.Errorf("%s has no archive", name)
		}
		if _, err := r.clusters.Read(r.t.Context(), r.specs[name]); !errors.Is(err, ErrGone) {
			r.t.Errorf("read of the destroyed %s: %v", name, err)
		}
	}
	snapshots := 0
	for _, name := range everyone {
		snapshots += strings.Count(r.sh(name, "ls /var/lib/etcd-archive/*/snapshot.db 2>/dev/null || true"), "snapshot.db")
	}
	if snapshots == 0 {
		r.t.Error("the last member left no snapshot")
	}
}
