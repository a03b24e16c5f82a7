package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// pair is two machines with a replica each, and an etcd on the first one.
type pair struct {
	one, two *stage
	store    *countingStore
}

// countingStore is a ctlStore that counts its snapshots.
type countingStore struct {
	ctlStore
	saved []string
}

func (c *countingStore) Save(ctx context.Context, label string) (string, error) {
	place, err := c.ctlStore.Save(ctx, label)
	c.saved = append(c.saved, place)
	return place, err
}

func newPair(t *testing.T, version string, source host.Source, extra map[string]map[string]string) *pair {
	one := newStage(t)
	two := *one
	p := &pair{one: one, two: &two, store: &countingStore{ctlStore: ctlStore{one}}}
	key, err := machines.lab.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	address := machines.lab.Machine("cp2").Address.String()
	two.spec.Name, two.spec.Address = "cp2", address
	two.spec.Host = testHost(t, host.Config{Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known}, address)
	two.reached()
	replicas := NewReplicas(func(at string) *host.Host {
		if at == address {
			return two.spec.Host
		}
		return one.spec.Host
	})
	for _, st := range []*stage{one, &two} {
		st.replicas, st.spec.Version, st.spec.Source = replicas, version, source
		st.spec.Store, st.spec.ExtraArgs = p.store, extra
	}
	p.both(func(st *stage) (Status, error) { return replicas.Create(st.ctx, st.spec) })
	t.Cleanup(func() {
		for _, st := range []*stage{&two, one} {
			if err := replicas.Delete(context.WithoutCancel(st.ctx), st.spec, DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

// both calls f for both replicas in parallel, as Terraform does.
func (p *pair) both(f func(*stage) (Status, error)) {
	p.one.Helper()
	var group errgroup.Group
	for _, st := range []*stage{p.one, p.two} {
		group.Go(func() error {
			status, err := f(st)
			if err == nil {
				st.steady(status, nil)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		p.one.Fatal(err)
	}
	p.one.registrar.take()
}

// relabelled returns a source with the Kubernetes under test labelled as another version, for
// tests in which only the version number matters.
func relabelled(t *testing.T, version string) host.Source {
	t.Helper()
	dir := t.TempDir()
	for name, of := range map[string]string{
		"kubernetes-v" + labVersion: "kubernetes-v" + labVersion, "kubernetes-v" + version: "kubernetes-v" + labVersion,
	} {
		if err := os.Symlink(filepath.Join(machines.source.Directory, of), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return host.Source{Directory: dir}
}

// minorOf returns the minor version of a version: "1.35".
func minorOf(version string) string { return version[:strings.LastIndex(version, ".")] }

// TestUpgrade upgrades two replicas, with everything that may prevent it.
func TestUpgrade(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	next := minorOf(labVersion) + ".99" // never released
	p := newPair(t, labVersion, relabelled(t, next), nil)
	p.refusesAMinorWithAnOldKubelet(next)
	p.refusesWhileAnotherIsNotReady(next)
	p.finishesACutOffUpgrade(next)
	p.rollsBack(next)
}

// TestUpgradeThroughMinors does the same with real releases.
func TestUpgradeThroughMinors(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	testrun.Long(t)
	var path []string // 1.33 to 1.36
	for minors := 3; minors > 0; minors-- {
		path = append(path, pinned(build.MinorBefore("kubernetes", minors)))
	}
	path = append(path, labVersion)
	p := newPair(t, path[0], machines.source,
		cptest.Args(release.APIServer, "runtime-config", "admissionregistration.k8s.io/v1beta1=true"))
	p.refusesToSkip(path)
	p.seesWhatIsRemoved(path[0], path[1])
	for _, version := range path[1:] {
		start := time.Now()
		p.both(func(st *stage) (Status, error) {
			st.spec.Version = version
			return st.replicas.Update(st.ctx, st.spec)
		})
		t.Logf("both at %s in %s", version, time.Since(start).Round(100*time.Millisecond))
	}
	p.one.expect("snapshots", len(p.store.saved), len(path)-1)
}

// TestRollbackOfAMinor: an API server is rolled back by a minor while another one is already
// upgraded.
func TestRollbackOfAMinor(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	testrun.Long(t)
	p := newPair(t, pinned(build.MinorBefore("kubernetes", 1)), machines.source, nil)
	p.finishesACutOffUpgrade(labVersion)
	p.rollsBack(labVersion)
}

// refused tries an upgrade once, without waiting, and requires that it is refused without
// changes.
func (p *pair) refused(version string, want ...string) {
	p.one.Helper()
	s := p.one.spec
	s.Version = version
	t, err := p.one.replicas.changeLocks.acquire(p.one.ctx, s)
	if err != nil {
		p.one.Fatal(err)
	}
	defer t.finish(true)
	err = p.one.replicas.checkUpgrade(p.one.ctx, s, t)
	p.one.Log(err)
	for _, part := range want {
		if !problem.Untouched(err) || !strings.Contains(err.Error(), part) {
			p.one.Errorf("%v, want %q", err, part)
		}
	}
	p.one.expect("calls", p.one.registrar.take(), []string(nil))
	p.one.expect("snapshots", p.store.saved, []string(nil))
	if left := p.two.run("ls /opt/kube/kubernetes"); strings.Contains(left, version) {
		p.one.Errorf("programs of a refused version: %s", left)
	}
}

func (p *pair) refusesToSkip(path []string) {
	from, to := path[0], path[2]
	p.refused(to, "from "+from+" to "+to+": no minor may be skipped; go to "+minorOf(path[1])+" first",
		"replica cp2 is at "+from)
}

// seesWhatIsRemoved: a client of the second replica requests an API that the next minor does
// not serve.
func (p *pair) seesWhatIsRemoved(from, to string) {
	const api = "/apis/admissionregistration.k8s.io/v1beta1/validatingadmissionpolicies"
	if status, text := fetch(p.two, p.two.as(p.two.spec.Bundle), api); status != http.StatusOK {
		p.one.Fatalf("%d %s", status, text)
	}
	s := p.one.spec
	s.Version = to
	seen, err := p.one.replicas.Versions(p.one.ctx, s)
	if err != nil {
		p.one.Fatal(err)
	}
	p.one.expect("what runs", seen, release.Versions{
		Replicas: map[string]string{"cp1": from, "cp2": from},
		Etcd:     map[string]string{"cp1": etcdVersion},
		Kubelets: map[string]string{},
		Removed:  []string{"validatingadmissionpolicies of admissionregistration.k8s.io/v1beta1 (removed in 1.34)"},
	})
}

// refusesAMinorWithAnOldKubelet: the next minor is refused, and the patch release of a version is not. The Node is as a
// kubelet would have registered it.
func (p *pair) refusesAMinorWithAnOldKubelet(patch string) {
	web := p.one.as(p.one.spec.Bundle)
	node := `{"metadata":{"name":"old"},"status":` +
		`{"nodeInfo":{"kubeletVersion":"v1.32.9","kubeProxyVersion":"","machineID":"","systemUUID":"","bootID":"",` +
		`"kernelVersion":"","osImage":"","containerRuntimeVersion":"","operatingSystem":"","architecture":""}}}`
	if status, text := send(p.one, web, http.MethodPost, "/api/v1/nodes", node); status != http.StatusCreated {
		p.one.Fatalf("%d %s", status, text)
	}
	minor, err := release.Minor(patch)
	if err != nil {
		p.one.Fatal(err)
	}
	p.refused(fmt.Sprintf("1.%d.0", minor+1),
		fmt.Sprintf("upgrade the kubelets of nodes old (1.32.9) to 1.%d first", minor+1-3))
	seen, err := p.one.replicas.Versions(p.one.ctx, p.one.spec)
	if err != nil || seen.Kubelets["old"] != "1.32.9" {
		p.one.Fatalf("the kubelets are %v, %v", seen.Kubelets, err)
	}
	if err := release.CheckSkew(patch, p.one.spec.Name, seen); err != nil {
		p.one.Errorf("a patch release that changes nothing for the kubelet is refused: %v", err)
	}
	if status, text := send(p.one, web, http.MethodDelete, "/api/v1/nodes/old", ""); status != http.StatusOK {
		p.one.Fatalf("%d %s", status, text)
	}
}

func (p *pair) refusesWhileAnotherIsNotReady(version string) {
	p.two.run("systemctl stop kube-scheduler")
	p.refused(version, "replica cp2 ("+p.two.spec.Host.Address()+"): kube-scheduler does not answer")
	status, err := p.two.replicas.Update(p.two.ctx, p.two.spec)
	p.two.steady(status, err)
	p.one.registrar.take()
}

// finishesACutOffUpgrade of the first replica: before it is changed, the programs are installed
// on the other's machine and a snapshot of etcd is saved, once.
func (p *pair) finishesACutOffUpgrade(version string) {
	st := p.one
	st.run("rm -f /etc/kubernetes/scheduler-config.yaml")
	st.writeSchedulerConfig()
	st.registrar.drains = func(string) {
		p.two.run("test -x " + component.Artifact(version, release.Scheduler).Path())
		st.expect("snapshots", len(p.store.saved), 1)
	}
	st.spec.Version, st.spec.ExtraArgs = version, cptest.Args(release.Scheduler, "config", schedulerConfigPath)
	ctx, cut := context.WithCancel(problem.WithReport(st.ctx, problem.Report{}))
	defer cut()
	ctx = problem.WithReport(ctx, problem.Report{Progress: func(line string) {
		st.Log(line)
		if strings.HasSuffix(line, "starting kube-controller-manager") {
			cut()
		}
	}})
	if _, err := st.replicas.Update(ctx, st.spec); !errors.Is(err, context.Canceled) {
		st.Fatalf("not cut off: %v", err)
	}
	st.run("test -s " + machine.RollbackRecordPath)
	st.registrar.drains = nil
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.run("test ! -e " + machine.RollbackRecordPath)
	st.expect("snapshots", len(p.store.saved), 1)
	st.registrar.take()
}

const schedulerConfigPath = "/etc/kubernetes/scheduler-config.yaml"

func (st *stage) writeSchedulerConfig() {
	st.Helper()
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  " +
		"kubeconfig: " + component.SchedulerConf + "\n"
	if _, err := st.spec.Host.Apply(st.ctx,
		host.Change{
			Files: []host.File{{Path: schedulerConfigPath, Content: []byte(text), Mode: component.PublicMode}},
		}); err != nil {
		st.Fatal(err)
	}
}

// rollsBack the second replica, whose machine lacks a file that the new flags name, and
// completes the change when the file exists.
func (p *pair) rollsBack(version string) {
	st := p.two
	old := st.spec
	st.spec.Version, st.spec.ExtraArgs = version, p.one.spec.ExtraArgs
	start := time.Now()
	_, err := st.replicas.Update(st.ctx, st.spec)
	st.Logf("rolled back in %s:\n%v", time.Since(start).Round(100*time.Millisecond), err)
	var output *problem.Problem
	if !errors.As(err, &output) || output.Summary != "Control-plane replica not upgraded to "+version+": rolled back to "+
		old.Version ||
		!strings.Contains(output.Cause, release.Scheduler) || !strings.Contains(output.Detail, schedulerConfigPath) {
		st.Errorf("the failure does not say what it is: %v", err)
	}
	st.expect("calls", st.registrar.take(), []string{"drain", "register"})
	wanted := st.spec
	st.spec = old
	status, err := st.replicas.Read(st.ctx, old)
	st.steady(status, err)
	st.run("test ! -e " + machine.RollbackRecordPath)
	st.spec = wanted
	st.writeSchedulerConfig()
	status, err = st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.registrar.take()
	st.expect("snapshots", len(p.store.saved), 1)
	status, err = p.one.replicas.Read(p.one.ctx, p.one.spec)
	p.one.steady(status, err)
}
