package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestStaticPodOnMachines: members that a kubelet runs from containers of containerd, from the first to the last.
func TestStaticPodOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcdpod", Subnet: netip.MustParsePrefix("10.57.0.0/24"), Machines: everyone,
	}, []string{oldRelease, newRelease}, testStaticPods)
}

const (
	pauseImage  = "registry.example.com/pod:1"
	podManifest = staticpod.Directory + "/etcd.yaml"
)

// kubeletFiles make a kubelet that runs static pods only, without an API server.
const kubeletFiles = `mkdir -p /var/lib/kubelet /etc/kubernetes/manifests
cat >/var/lib/kubelet/config.yaml <<'CONFIG'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
staticPodPath: /etc/kubernetes/manifests
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}
CONFIG
cat >/etc/systemd/system/kubelet.service <<'UNIT'
[Unit]
After=containerd.service cgroups-writable.service
[Service]
ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now --quiet kubelet
` + kubeletRuns

// kubeletRuns waits until the kubelet runs, and keeps running.
const kubeletRuns = `for i in $(seq 60); do
  if ctr -n k8s.io tasks ls >/dev/null 2>&1 && systemctl is-active --quiet kubelet; then
    sleep 2
    if systemctl is-active --quiet kubelet; then exit 0; fi
  fi
  sleep 0.5
done
exit 1
`

func testStaticPods(t *testing.T) {
	prepareNodes(t)
	images := imageSource(t)
	r := newRig(t)
	r.edit(func(s *Spec) { s.Source = images }, everyone...)
	r.clusters.pace.ConditionTimeout, r.clusters.pace.Settle = 10*time.Second, time.Second
	r.edit(func(s *Spec) {
		s.Version, s.Runtime, s.ExtraArgs = oldRelease, machine.StaticPod, map[string]string{"max-txn-ops": "200"}
		s.Environment = map[string]string{"GOGC": "90"}
	}, everyone...)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"refused", r.podRefused},
		{"created", r.podCreated},
		{"without the image of sandboxes", r.podWithoutSandbox},
		{"flag", r.podFlag},
		{"killed", r.podKilled},
		{"drift", r.podDrift},
		{"rotated", r.podRotated},
		{"moved to units and back", r.podMoved},
		{"moved in spite of interruptions", r.podMovedCutOff},
		{"upgraded", r.podUpgraded},
		{"boot", r.podBoots},
		{"data gone", r.podWithoutData},
		{"replaced", r.podReplaced},
		{"restored", r.podRestored},
		{"imported", r.podImported},
		{"deleted", r.podDeleted},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			r.t = t
			defer func() {
				if t.Failed() {
					r.podDiagnosis()
				}
			}()
			step.run()
		}) {
			t.FailNow()
		}
		r.t = t
	}
}

// imageSource returns a directory with programs and archives of images. The newer image has the architecture in its
// name there, as in Kubernetes' releases.
func imageSource(t *testing.T) host.Source {
	t.Helper()
	source := host.Source{Directory: t.TempDir()}
	for release, name := range map[string]string{
		oldRelease: machine.DefaultImage(oldRelease),
		newRelease: strings.Replace(machine.DefaultImage(newRelease), ":", "-amd64:", 1),
	} {
		programs, dir := filepath.Join(components(), "etcd-v"+release), filepath.Join(source.Directory, "etcd-v"+release)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, a := range machine.Artifacts(release) {
			if err := os.Symlink(filepath.Join(programs, a.Name), filepath.Join(dir, a.Name)); err != nil {
				t.Fatal(err)
			}
		}
		err := build.ProgramImage(t.Context(), name, filepath.Join(programs, "etcd"), filepath.Join(dir, "etcd.tar"))
		if err != nil {
			t.Fatal(err)
		}
	}
	return source
}

// prepareNodes makes machines with containerd and a kubelet.
func prepareNodes(t *testing.T) {
	t.Helper()
	l, err := lab.Open(os.Getenv(withinLab))
	if err != nil {
		t.Fatal(err)
	}
	version, err := build.Version("kubernetes-1.36-node")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := filepath.Join(components(), "kubernetes-v"+version, "kubelet")
	if _, err := os.Stat(kubelet); err != nil {
		testrun.Missing(t, "kube-lab build kubernetes-1.36-node makes kubelet")
	}
	pause := filepath.Join(t.TempDir(), "pod.tar")
	if err := build.PodImage(t.Context(), pauseImage, pause); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	errs := make([]error, len(everyone))
	for i, name := range everyone {
		group.Go(func() { errs[i] = prepareNode(t.Context(), l.Machine(name), kubelet, pause) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", everyone[i], err)
		}
	}
}

func prepareNode(ctx context.Context, m *lab.Machine, kubelet, pause string) error {
	if err := m.RebuildForContainers(ctx, pauseImage); err != nil {
		return err
	}
	archive, err := os.Open(pause)
	if err != nil {
		return err
	}
	err = m.ImportImage(ctx, archive)
	_ = archive.Close() // it was read
	if err != nil {
		return err
	}
	program, err := os.Open(kubelet)
	if err != nil {
		return err
	}
	defer program.Close()
	upload := m.SSH(ctx, "cat >/usr/bin/kubelet && chmod 755 /usr/bin/kubelet")
	upload.Stdin = program
	if out, err := upload.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_, err = m.Run(ctx, kubeletFiles)
	return err
}

// podDiagnosis logs what the machines say about their pods.
func (r *rig) podDiagnosis() {
	for _, name := range everyone {
		out, err := r.lab.Machine(name).Run(context.WithoutCancel(r.t.Context()), `ls -la /etc/kubernetes/manifests /etc/etcd
cat `+podManifest+`; ctr -n k8s.io tasks ls; journalctl -u kubelet -n 25 --no-pager | cut -c 1-400
tail -n 15 /var/log/pods/kube-system_etcd-*/etcd/*.log | cut -c 1-400; ss -ltn`)
		r.t.Logf("%s: %v\n%s", name, err, out)
	}
}

// container returns the container of a machine's member.
func (r *rig) container(name string) string {
	r.t.Helper()
	return strings.TrimSpace(r.sh(name, "pgrep -x etcd"))
}

// podRefused: a machine without a working kubelet is refused, and nothing is changed there.
func (r *rig) podRefused() {
	for want, script := range map[string][2]string{
		"kubelet.service is inactive": {"systemctl stop kubelet", "systemctl start kubelet"},
		"directory of manifests is /etc/kubelet.d": {
			"sed -i 's|^staticPodPath:.*|staticPodPath: /etc/kubelet.d|' /var/lib/kubelet/config.yaml; " +
				"systemctl restart kubelet",
			"sed -i 's|^staticPodPath:.*|staticPodPath: /etc/kubernetes/manifests|' /var/lib/kubelet/config.yaml; " +
				"systemctl restart kubelet",
		},
		"container runtime does not answer": {"systemctl stop containerd", "systemctl start containerd"},
	} {
		r.sh("cp1", script[0])
		_, err := r.clusters.Create(r.t.Context(), r.specs["cp1"])
		if err == nil || !strings.Contains(err.Error(), want) {
			r.t.Errorf("%q: %v", want, err)
		}
		r.sh("cp1", script[1]+"\n"+kubeletRuns)
	}
	if got := r.sh("cp1", "ls -d /etc/etcd /opt/kube 2>/dev/null; true"); got != "" {
		r.t.Errorf("a refused machine has %s", got)
	}
	other := r.specs["cp1"]
	other.Image = "registry.example.com/other:1"
	_, err := r.clusters.Create(r.t.Context(), other)
	if err == nil || !strings.Contains(err.Error(), "no image "+other.Image+", but: "+machine.DefaultImage(oldRelease)) {
		r.t.Errorf("an archive of another image: %v", err)
	}
}

// podCreated: one member, and then two that join it.
func (r *rig) podCreated() {
	r.only([]string{"cp1"}, "create one", r.create)
	r.only([]string{"cp2", "cp3"}, "join two", r.create)
	before := map[string]string{}
	for _, name := range everyone {
		before[name] = r.container(name)
	}
	r.all("read", r.same)
	r.all("update without a change", r.update)
	_, reviewed := r.clusters.Review(r.t.Context(), r.specs["cp1"].Peers, r.specs["cp1"].Bundle)
	for _, m := range reviewed { // the definition has a request of processors, and no limit
		if p := m.Process; !p.Running || p.Unseen != "" || !p.CPURequest || p.MemoryMax+p.CPUQuota != "" {
			r.t.Errorf("review of %s: %+v", m.Address, p)
		}
	}
	if len(reviewed) != len(everyone) {
		r.t.Errorf("%d members were reviewed", len(reviewed))
	}
	for _, name := range everyone {
		if r.container(name) != before[name] {
			r.t.Errorf("%s was restarted", name)
		}
	}
}

// podFlag: a flag, and a listener for metrics, are rolled out one by one while a client writes. Facts are written.
func (r *rig) podFlag() {
	for _, name := range everyone {
		r.sh(name, "mkdir /srv/facts")
	}
	w := r.writer()
	r.edit(func(s *Spec) {
		s.ExtraArgs["max-txn-ops"], s.MetricsAddress, s.TextfileDirectory = "256", "0.0.0.0", "/srv/facts"
	}, everyone...)
	r.all("roll out a flag", r.update)
	acknowledged, failed := w.stop()
	r.t.Logf("%d writes were acknowledged, %d were not", len(acknowledged), failed)
	r.readBack(acknowledged)
	r.all("read", r.same)
	for _, name := range everyone {
		if got := r.sh(name, "tr '\\0' '\\n' </proc/$(pgrep -x etcd)/cmdline | grep max-txn"); got != "--max-txn-ops=256\n" {
			r.t.Errorf("%s runs with %s", name, got)
		}
		r.sh(name, `cd /etc/kubernetes/pki/etcd && curl --silent --fail --cacert ca.crt --cert server.crt --key server.key \
  --output /dev/null https://$(hostname -I | cut -d ' ' -f 1):2382/metrics`)
		facts := r.sh(name, "systemctl start etcd-facts.service; cat /srv/facts/kube_etcd_member.prom")
		if !strings.Contains(facts, `component="etcd",version="`+oldRelease+`"} 1`) {
			r.t.Errorf("facts of %s:\n%s", name, facts)
		}
	}
}

// podWithoutSandbox: a kubelet that frees space may remove the image of sandboxes. Then nothing that stops could start
// again.
func (r *rig) podWithoutSandbox() {
	const image = `image=$(containerd config dump | sed -n 's/^ *sandbox_image = "\(.*\)"$/\1/p')
`
	before := r.container("cp1")
	r.sh("cp1", image+`ctr -n k8s.io images export /root/sandbox.tar "$image"; ctr -n k8s.io images rm "$image"`)
	other := r.specs["cp1"]
	other.ExtraArgs = map[string]string{"max-txn-ops": "300"}
	if err := r.update(r.t.Context(), other); err == nil || !strings.Contains(err.Error(), "image of sandboxes") {
		r.t.Errorf("without the image of sandboxes: %v", err)
	}
	if r.container("cp1") != before {
		r.t.Error("the member was stopped")
	}
	r.sh("cp1", "ctr -n k8s.io images import /root/sandbox.tar; rm /root/sandbox.tar")
	r.all("read", r.same)
}

// podKilled: the kubelet starts a container again, which is no drift.
func (r *rig) podKilled() {
	before := r.container("cp2")
	r.sh("cp2", "kill -9 "+before)
	r.awaitPod("cp2", "", r.same)
	if r.container("cp2") == before {
		r.t.Error("the container was not killed")
	}
}

// awaitPod waits until a check of a member succeeds.
func (r *rig) awaitPod(name, what string, check func(context.Context, Spec) error) {
	r.t.Helper()
	begin := time.Now()
	for {
		err := check(r.t.Context(), r.specs[name])
		if err == nil {
			r.t.Logf("%s %s after %s", name, what, time.Since(begin).Round(100*time.Millisecond))
			return
		}
		if time.Since(begin) > time.Minute {
			r.t.Fatalf("%s %s: %v", name, what, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// podDrift: what was changed by hand is reported and repaired.
func (r *rig) podDrift() {
	guard := layout.StartGuard
	for _, c := range []struct {
		name, script string
		want         []string
		restarts     bool
	}{
		{"an edited manifest", "sed -i 's/max-txn-ops=256/max-txn-ops=300/' " + podManifest, []string{
			`flag --max-txn-ops is "300", wanted "256"`,
		}, true},
		{"a deleted manifest", "rm " + podManifest, []string{podManifest + " is missing"}, true},
		{"a copy beside the manifest", "cp " + podManifest + " " + podManifest + ".bak", []string{
			podManifest + ".bak is another manifest of the pod",
		}, true},
		{"an edited definition", "sed -i 's/max-txn-ops=256/max-txn-ops=300/' " + layout.PodPath, []string{
			layout.PodPath + " was edited manually",
		}, false},
		{"a guard that lets it start without data", "ln -sfn /etc/etcd " + guard, []string{guard + " leads to"}, false},
	} {
		before := r.container("cp3")
		r.sh("cp3", c.script)
		r.awaitPod("cp3", c.name+" is reported", func(ctx context.Context, s Spec) error {
			status, err := r.clusters.Read(ctx, s)
			words := strings.Join(status.Drift, "\n")
			for _, want := range c.want {
				if err == nil && !strings.Contains(words, want) {
					err = fmt.Errorf("drift lacks %q: %s", want, words)
				}
			}
			return err
		})
		r.only([]string{"cp3"}, "repair "+c.name, func(ctx context.Context, s Spec) error {
			status, err := r.clusters.Update(ctx, s)
			if err == nil && len(status.Drift) > 0 {
				err = fmt.Errorf("left %q", status.Drift)
			}
			return err
		})
		r.awaitPod("cp3", c.name+" is repaired", r.same)
		if restarted := r.container("cp3") != before; restarted != c.restarts {
			r.t.Errorf("%s: restarted %v", c.name, restarted)
		}
	}
	if got := r.sh("cp3", "ls -A "+staticpod.Directory); got != "etcd.yaml\n" {
		r.t.Errorf("the directory of manifests has %s", got)
	}
	if got := r.sh("cp3", "ls "+layout.MovedManifests); got != "etcd.yaml.bak\n" {
		r.t.Errorf("the copy is not where it was moved: %s", got)
	}
}

// podRotated: the etcd authority is rotated; new certificates restart nothing.
func (r *rig) podRotated() {
	for generation := 1; generation <= 3; generation++ {
		bundle := etcdtest.Rotated(r.t, r.specs["cp1"].Bundle, generation)
		before := map[string]string{}
		for name, s := range r.specs {
			s.Bundle = bundle
			r.specs[name], before[name] = s, r.container(name)
		}
		r.all(fmt.Sprint("rotate to generation ", generation), r.update)
		r.all("read", r.same)
		for name := range r.specs {
			if restarted := r.container(name) != before[name]; restarted != (generation != 2) {
				r.t.Errorf("generation %d: %s was restarted: %v", generation, name, restarted)
			}
		}
	}
}

// podUpgraded: to the next minor version, while a client writes. Scheduled snapshots use its tools.
func (r *rig) podUpgraded() {
	r.edit(func(s *Spec) { s.Snapshots = &snapshot.Settings{Schedule: never, Kept: 1} }, everyone...)
	r.all("snapshots", r.update)
	acknowledged := r.changeVersion("upgrade", newRelease)
	r.all("read", r.same)
	r.readBack(acknowledged)
	r.sameData()
	r.savesOnSchedule()
}

// podBoots: a machine that lost power starts its member again.
func (r *rig) podBoots() {
	m := r.lab.Machine("cp2")
	if err := m.PowerOff(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := m.Boot(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.awaitPod("cp2", "serves after a boot", r.same)
}

// podWithoutData: an established member whose data directory was emptied does not start, neither by its kubelet nor
// as a new container of its pod. The next apply makes it join again.
func (r *rig) podWithoutData() {
	r.podsLose("cp1")
	r.t.Log("the container of a running pod")
	r.neverStarts("cp1")
	r.sh("cp1", "mv "+podManifest+" /root/; sleep 25; mv /root/etcd.yaml "+podManifest)
	r.t.Log("a new pod")
	r.neverStarts("cp1")
	r.only([]string{"cp1"}, "join again", func(ctx context.Context, s Spec) error {
		_, err := r.clusters.Update(ctx, s)
		return err
	})
	r.all("read", r.same)
}

func (r *rig) neverStarts(name string) {
	r.t.Helper()
	for range 15 {
		time.Sleep(time.Second)
		got := r.sh(name, "pgrep -x etcd; [ ! -e /var/lib/etcd/member ] || ls -d /var/lib/etcd/member; true")
		if got != "" {
			r.t.Fatalf("%s has %s", name, got)
		}
	}
}

// podReplaced: a member is destroyed, and one of the same name joins: first as a unit of systemd, beside pods.
func (r *rig) podReplaced() {
	r.sh("cp3", "cp "+podManifest+" "+podManifest+".old") // would start when the manifest is gone
	r.only([]string{"cp3"}, "destroy one", r.delete)
	if got := r.sh("cp3", "ls -A "+staticpod.Directory+"; pgrep -x etcd; true"); got != "" {
		r.t.Errorf("left behind: %s", got)
	}
	for _, by := range []machine.Runtime{machine.Systemd, machine.StaticPod} {
		r.edit(func(s *Spec) { s.Runtime = by }, "cp3")
		r.only([]string{"cp3"}, "join again by "+string(by), r.create)
		r.all("read", r.same)
		if by == machine.Systemd {
			r.only([]string{"cp3"}, "destroy it", r.delete)
		}
	}
}

// podImported: a machine tells what runs its member.
func (r *rig) podImported() {
	got, err := r.clusters.Import(r.t.Context(), r.specs["cp2"].Host)
	if err != nil || got.Runtime != machine.StaticPod || got.Image != machine.DefaultImage(newRelease) ||
		got.ExtraArgs["max-txn-ops"] != "256" || len(got.ExtraArgs) != 1 || got.Environment["GOGC"] != "90" ||
		len(got.Peers) != 3 || got.Version != newRelease || got.Snapshots == nil {
		r.t.Errorf("%v: %+v", err, got)
	}
	r.all("read", r.same)
}

// podDeleted: nothing is left but archives, the kubelet and the images.
func (r *rig) podDeleted() {
	r.all("destroy", r.delete)
	for _, name := range everyone {
		r.sh(name, "rmdir "+staticpod.Directory+" /etc/kubernetes")
		if got := r.sh(name, "ctr -n k8s.io tasks ls -q"); strings.TrimSpace(got) != "" {
			r.t.Errorf("%s runs %s", name, got)
		}
	}
	r.clean()
}
