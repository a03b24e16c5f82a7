package controlplane

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const (
	pauseImage   = "registry.example.com/pod:1"
	nextPatch    = ".99"                          // of a version that was never released
	podVersions  = "registry.example.com/cluster" // the image repository
	kubeletDelay = time.Minute
)

// podStage is a stage whose machine runs the components as static pods.
type podStage struct {
	*stage
	machine *lab.Machine
}

// newPodStage returns a bare stage whose machine is made anew after the test.
func newPodStage(t *testing.T) *podStage {
	t.Helper()
	p := &podStage{newBareStage(t), machines.lab.Machine("cp1")}
	t.Cleanup(func() {
		if err := p.machine.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestStaticPodReplicaOnMachines: the components of a replica are static pods of a released kubelet, with containerd
// and images of the released programs. They are created, changed, restarted, repaired, upgraded and deleted as units
// are.
func TestStaticPodReplicaOnMachines(t *testing.T) {
	testrun.Long(t)
	p := newPodStage(t)
	st := p.stage
	st.spec.Runtime, st.spec.ImageRepository = component.StaticPod, podVersions
	p.refused("neither crictl nor ctr is installed", "kubelet.service is inactive")
	if err := p.machine.RebuildForContainers(t.Context(), pauseImage); err != nil {
		t.Fatal(err)
	}
	p.reconnects()
	p.kubelet("")
	p.refused("the kubelet's directory of manifests is not set")
	p.kubelet("staticPodPath: " + staticpod.Directory + "\n")
	p.images(labVersion)
	st.startEtcd(st.spec.Address)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"creates", p.creates},
		{"is reviewed", p.reviewed},
		{"changes a flag", p.changesAFlag},
		{"renews certificates", p.renewed},
		{"undoes what was edited", p.edited},
		{"takes a copy away", p.copied},
		{"moves to units and back", p.moves},
		{"manages the kubelet", p.managesKubelet},
		{"upgrades", p.upgraded},
		{"is imported", p.imported},
		{"takes a kubelet back", p.takesKubeletBack},
		{"finishes a cut-off start", p.cutOff},
		{"starts after a kill", p.killed},
		{"pauses for its member", p.pauses},
		{"boots while it is paused", p.bootsPaused},
		{"boots", p.boots},
		{"takes back", p.takesBack},
		{"deletes", p.deleted},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			outer := st.T
			st.T = t
			defer func() { st.T = outer }()
			step.run()
		}) {
			p.explain()
			if step.name == "creates" {
				return
			}
		}
	}
}

// reconnects connects to the machine, which was made anew with another host key.
func (p *podStage) reconnects() {
	p.Helper()
	known, err := machines.lab.KnownHosts()
	if err != nil {
		p.Fatal(err)
	}
	p.spec.Host = testHost(p.T, host.Config{
		Credentials: host.Credentials{PrivateKey: p.key}, KnownHosts: known,
	}, p.spec.Address)
	p.reached()
}

// explain logs what the kubelet says.
func (p *podStage) explain() {
	out, _ := p.machine.Run(context.WithoutCancel(p.ctx), "ls -la /etc/kubernetes/manifests /etc/kubernetes/replica.pods;"+
		"ctr -n k8s.io containers ls; ctr -n k8s.io tasks ls; journalctl -u kubelet -n 40 --no-pager;"+
		"tail -n 15 /var/log/pods/*/*/*.log")
	p.Log(out)
}

// kubelet installs a released kubelet without a cluster, with lines added to its configuration.
func (p *podStage) kubelet(lines string) {
	p.Helper()
	program := filepath.Join(machines.source.Directory, "kubernetes-v"+labVersion, "kubelet")
	if _, err := os.Stat(program); err != nil {
		testrun.Missing(p.T, "kube-lab build kubernetes-1.36-node makes kubelet")
	}
	file, err := os.Open(program)
	if err != nil {
		p.Fatal(err)
	}
	defer file.Close()
	upload := p.machine.SSH(p.ctx, "test -x /usr/bin/kubelet || install -m 755 /dev/stdin /usr/bin/kubelet")
	upload.Stdin = file
	if out, err := upload.CombinedOutput(); err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	const config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: cgroupfs\n" +
		"failSwapOn: false\nfailCgroupV1: false\nauthentication: {anonymous: {enabled: false}, webhook: {enabled: false}}\n" +
		"authorization: {mode: AlwaysAllow}\nfileCheckFrequency: 5s\nenableServer: false\n" +
		"imageGCHighThresholdPercent: 100\n" +
		"containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n" +
		"evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}\n"
	const unit = "[Unit]\nAfter=containerd.service cgroups-writable.service\n[Service]\n" +
		"Environment=KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\n" +
		"ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS " +
		"$KUBELET_EXTRA_ARGS\n" +
		"Restart=always\nRestartSec=2\n[Install]\nWantedBy=multi-user.target\n"
	if _, err := p.spec.Host.Apply(p.ctx, host.Change{
		Dirs: []host.Dir{{Path: "/var/lib/kubelet", Mode: 0o755}, {Path: staticpod.Directory, Mode: 0o755}},
		Files: []host.File{
			{Path: "/var/lib/kubelet/config.yaml", Content: []byte(config + lines), Mode: 0o644},
			{Path: "/etc/systemd/system/kubelet.service", Content: []byte(unit), Mode: 0o644},
		},
		Script: "systemctl enable --quiet kubelet.service\nsystemctl restart kubelet.service",
	}); err != nil {
		p.Fatal(err)
	}
}

// images imports the images of a version; whatever the version, the programs are those under test.
func (p *podStage) images(version string) {
	p.Helper()
	archive := filepath.Join(p.TempDir(), "image.tar")
	give := func() {
		p.Helper()
		file, err := os.Open(archive)
		if err != nil {
			p.Fatal(err)
		}
		defer file.Close()
		if err := p.machine.ImportImage(p.ctx, file); err != nil {
			p.Fatal(err)
		}
	}
	for _, name := range release.Components() {
		program := filepath.Join(machines.source.Directory, "kubernetes-v"+labVersion, name)
		s := p.spec.Replica
		s.Version = version
		if err := build.ProgramImage(p.ctx, s.Image(name), program, archive); err != nil {
			p.Fatal(err)
		}
		give()
	}
	if err := build.PodImage(p.ctx, pauseImage, archive); err != nil {
		p.Fatal(err)
	}
	give()
}

// refused: the machine cannot run static pods, and nothing of the replica is on it.
func (p *podStage) refused(why ...string) {
	p.Helper()
	_, err := p.replicas.Create(p.ctx, p.spec)
	for _, text := range why {
		if err == nil || !strings.Contains(err.Error(), text) {
			p.Fatalf("%v, want %s", err, text)
		}
	}
	p.expect("files of a refused replica", p.run("ls /etc/kubernetes/*.json 2>/dev/null || :"), "")
}

// containers returns the running container of each component.
func (p *podStage) containers() map[string]string {
	p.Helper()
	facts, err := p.spec.Host.Observe(p.ctx, host.Query{Script: pod.Report(release.Components())})
	if err != nil {
		p.Fatal(err)
	}
	running := map[string]string{}
	for _, name := range release.Components() {
		if c, ok := staticpod.Read(facts.Output, name).Running(); ok {
			running[name] = c.ID
		}
	}
	return running
}

// starts returns what the provider has started each component with. A component that ends by itself, such as one that
// lost its lease while the API server was restarted, is not started by the provider.
func (p *podStage) starts() map[string]string {
	p.Helper()
	started := map[string]string{}
	for _, name := range release.Components() {
		started[name] = p.run("sha256sum <" + staticpod.Path(name) + " || :")
	}
	return started
}

// changed returns the components, in order, that differ from before.
func (p *podStage) changed(before, now map[string]string) string {
	p.Helper()
	var names []string
	for _, name := range release.Components() {
		if now[name] == "" || now[name] != before[name] {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// updates applies the spec.
func (p *podStage) updates() {
	p.Helper()
	began := time.Now()
	status, err := p.replicas.Update(p.ctx, p.spec)
	p.Logf("updated in %.1f s", time.Since(began).Seconds())
	p.steady(status, err)
	status, err = p.replicas.Read(p.ctx, p.spec)
	p.steady(status, err)
	p.registrar.take()
}

func (p *podStage) creates() {
	p.spec.Limits = map[string]component.Limits{release.Scheduler: {MemoryMax: "512M", CPUQuota: "50%"}}
	p.run("mkdir /srv/facts")
	p.spec.TextfileDirectory = "/srv/facts"
	began := time.Now()
	status, err := p.replicas.Create(p.ctx, p.spec)
	p.Logf("created in %.1f s", time.Since(began).Seconds())
	p.steady(status, err)
	p.expect("calls", p.registrar.take(), []string{"register"})
	before := p.starts()
	p.expect("containers", len(p.containers()), 3)
	status, err = p.replicas.Create(p.ctx, p.spec)
	p.steady(status, err)
	p.expect("restarted by a repeated create", p.changed(before, p.starts()), "")
	began = time.Now()
	status, err = p.replicas.Read(p.ctx, p.spec)
	p.Logf("read in %.2f s", time.Since(began).Seconds())
	p.steady(status, err)
	p.adminsMayDoAll()
	p.Log(p.run("ls -lR /etc/kubernetes; cat " + staticpod.Path(release.Scheduler)))
	p.registrar.take()
}

// reviewed: a review sees the limits and the requests of containers, and the audit log that the API server's flags
// name. Facts have the versions that run.
func (p *podStage) reviewed() {
	facts := p.run("systemctl start kube-facts.service; cat /srv/facts/kube_control_plane_replica.prom")
	for _, name := range release.Components() {
		if !strings.Contains(facts, `component="`+name+`",version="`+labVersion+`"} 1`) {
			p.Errorf("facts without the version of %s:\n%s", name, facts)
		}
	}
	seen := p.replicas.Review(p.ctx, []string{p.spec.Address}, []string{"audit-policy-file"}, p.spec.Bundle)[0]
	for _, name := range release.Components() {
		if got := seen.Processes[name]; !got.Running || got.Unseen != "" || !got.CPURequest {
			p.Errorf("%s: %+v", name, got)
		}
	}
	scheduler, server := seen.Processes[release.Scheduler], seen.Processes[release.APIServer]
	p.expect("limits of the scheduler", scheduler.MemoryMax+" "+scheduler.CPUQuota, "536870912 0.5s")
	p.expect("limits of the API server", server.MemoryMax+server.CPUQuota, "")
	if seen.ScrapedErr != nil || seen.ScrapersErr != nil || seen.Files["audit-policy-file"] == "" {
		p.Errorf("%v, %v, files %v", seen.ScrapedErr, seen.ScrapersErr, seen.Files)
	}
	p.expect("connected to the scheduler", len(seen.Scrapers[release.Scheduler]), 0)
}

// changesAFlag: a change restarts what it concerns; the API server is drained before.
func (p *podStage) changesAFlag() {
	before := p.starts()
	p.spec.ExtraArgs = map[string]map[string]string{release.Scheduler: {"v": "1"}}
	p.updates()
	p.expect("restarted by a flag of the scheduler", p.changed(before, p.starts()), release.Scheduler)
	before = p.starts()
	p.spec.ExtraArgs[release.APIServer] = map[string]string{"event-ttl": "2h"}
	drained := false
	p.registrar.drains = func(string) { drained = p.changed(before, p.starts()) == "" }
	p.updates()
	p.registrar.drains = nil
	p.expect("drained before the API server stops", drained, true)
	p.expect("restarted by a flag of the API server", p.changed(before, p.starts()), release.APIServer)
}

// killed: the kubelet starts a component again by itself, which is no drift.
func (p *podStage) killed() {
	before := p.containers()
	p.run("kill -KILL $(pidof kube-scheduler)")
	p.awaits("the scheduler runs again", func() bool {
		now := p.containers()[release.Scheduler]
		return now != "" && now != before[release.Scheduler]
	})
	p.awaits("no drift", func() bool {
		status, err := p.replicas.Read(p.ctx, p.spec)
		return err == nil && len(status.Drift) == 0
	})
}

// edited: a manifest and a definition that were edited by hand are drift, which an update undoes.
func (p *podStage) edited() {
	p.run("sed -i 's/--leader-elect=true/--leader-elect=false/' " + staticpod.Path(release.Scheduler))
	p.drifts("its definition changed after it was read")
	p.awaits("the kubelet has taken the edit", func() bool {
		return strings.Contains(p.run("tr '\\0' ' ' </proc/$(pidof kube-scheduler)/cmdline || :"), "leader-elect=false")
	})
	before := p.starts()
	p.updates()
	p.expect("restarted by an edit", p.changed(before, p.starts()), release.Scheduler)
	before = p.starts()
	p.run("sed -i 's/--leader-elect=true/--leader-elect=false/' " + pod.Path(release.Scheduler))
	p.drifts(`flag --leader-elect is "false", wanted "true"`)
	p.updates()
	p.expect("restarted by an edit that nothing has read", p.changed(before, p.starts()), "")
	p.run("rm " + staticpod.Path(release.ControllerManager))
	p.drifts("kube-controller-manager")
	p.updates()
	p.expect("restarted by a lost manifest", p.changed(before, p.starts()), release.ControllerManager)
}

// copied: another file of the same pod in the kubelet's directory is drift, and moved away.
func (p *podStage) copied() {
	copied := staticpod.Directory + "/kube-scheduler.yaml.bak"
	p.run("cp " + staticpod.Path(release.Scheduler) + " " + copied)
	p.drifts("its definition is changed by files in " + staticpod.Directory)
	p.updates()
	p.expect("the copy", p.run("ls "+copied+" 2>/dev/null || :"), "")
}

// renewed: components that read their certificates at the start only are restarted with new ones.
func (p *podStage) renewed() {
	p.leads(release.ControllerManager) // else it ends by itself, after the API server was away in the last step
	before := p.starts()
	p.run("rm /etc/kubernetes/scheduler.conf /etc/kubernetes/pki/apiserver.crt")
	p.updates()
	p.expect("restarted by new certificates", p.changed(before, p.starts()), release.Scheduler)
}

// leads waits until a component renews its lease.
func (p *podStage) leads(name string) {
	p.Helper()
	began := time.Now()
	web := p.as(p.spec.Bundle)
	p.awaits(name+" leads", func() bool {
		status, body := fetch(p.stage, web, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name)
		var lease coordination.Lease
		if status != http.StatusOK || json.Unmarshal([]byte(body), &lease) != nil || lease.Spec.RenewTime == nil {
			return false
		}
		return lease.Spec.RenewTime.After(began)
	})
}

// cutOff: a start that ends between the definition and the manifest is finished by the next update.
func (p *podStage) cutOff() {
	before := p.starts()
	p.spec.ExtraArgs[release.Scheduler] = map[string]string{"v": "0"}
	for _, c := range component.Of(p.spec.Replica) {
		if c.Name == release.Scheduler {
			if _, err := p.spec.Host.Apply(p.ctx, host.Change{Files: []host.File{pod.File(c)}}); err != nil {
				p.Fatal(err)
			}
		}
	}
	p.drifts("kube-scheduler")
	p.updates()
	p.expect("restarted after a cut", p.changed(before, p.starts()), release.Scheduler)
}

// upgraded: an upgrade without images is refused before anything stops, and one with them changes all components.
func (p *podStage) upgraded() {
	p.spec.ManageKubelet = false // there is no kubelet of a version that was never released
	p.run("rm -f " + kubelet.DropIn + "; systemctl daemon-reload; systemctl restart kubelet.service")
	before := p.starts()
	next := minorOf(labVersion) + nextPatch
	p.spec.Store = &ctlStore{p.stage}
	p.spec.Version = next
	_, err := p.replicas.Update(p.ctx, p.spec)
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver:v"+next) {
		p.Errorf("upgrade without images: %v", err)
	}
	p.expect("restarted by a refused upgrade", p.changed(before, p.starts()), "")
	p.images(next)
	p.updates()
	p.expect("restarted by an upgrade", p.changed(before, p.starts()), strings.Join(release.Components(), " "))
}

// runningKubelet prints the program of the machine's kubelet.
const runningKubelet = "readlink /proc/$(systemctl show --property=MainPID --value kubelet.service)/exe"

// managesKubelet: the kubelet runs the program of the replica's version. The replica was drained, and its containers
// were stopped.
func (p *podStage) managesKubelet() {
	p.spec.ManageKubelet = true
	p.drifts("kubelet: runs /usr/bin/kubelet, wanted ")
	before, drained := p.containers(), false
	p.registrar.drains = func(string) { drained = maps.Equal(before, p.containers()) }
	p.updates()
	p.registrar.drains = nil
	p.expect("drained before the components stop", drained, true)
	p.expect("the kubelet", p.run(runningKubelet), kubelet.Artifact(labVersion).Path()+"\n")
	p.expect("restarted by another kubelet", p.changed(before, p.containers()), strings.Join(release.Components(), " "))
	before = p.containers()
	p.updates()
	p.expect("restarted by a repeated update", p.changed(before, p.containers()), "")
	p.run("sed -i s/KUBELET_EXTRA_ARGS// /etc/systemd/system/kubelet.service; rm " + kubelet.DropIn +
		"; systemctl daemon-reload")
	p.drifts(kubelet.DropIn + " is missing")
	_, err := p.replicas.Update(p.ctx, p.spec)
	if err == nil || !strings.Contains(err.Error(), "does not start the kubelet as 10-kubeadm.conf") {
		p.Errorf("a unit of another form: %v", err)
	}
	p.kubelet("staticPodPath: " + staticpod.Directory + "\n") // as before
	p.updates()
	p.registrar.take()
}

// takesKubeletBack: a kubelet that does not stay up is changed back, and the components run under the former one. The
// program is a fake that ends.
func (p *podStage) takesKubeletBack() {
	source := p.spec.Source
	p.spec.Source = host.Source{Directory: p.TempDir()}
	program := filepath.Join(p.spec.Source.Directory, "kubernetes-v"+p.spec.Version, "kubelet")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		p.Fatal(err)
	}
	const fake = "#!/bin/sh\n[ \"$1\" = --version ]\n"
	if err := os.WriteFile(program, []byte(fake), 0o755); err != nil { //nolint:gosec // a program
		p.Fatal(err)
	}
	p.spec.ManageKubelet = true
	_, err := p.replicas.Update(p.ctx, p.spec)
	if err == nil || !strings.Contains(err.Error(), "the kubelet does not stay up") {
		p.Errorf("a kubelet that ends: %v", err)
	}
	p.Log(err)
	p.expect("the kubelet", p.run(runningKubelet), "/usr/bin/kubelet\n")
	p.drifts("kubelet: runs version " + labVersion + ", wanted " + p.spec.Version)
	p.spec.ManageKubelet, p.spec.Source = false, source
	status, err := p.replicas.Read(p.ctx, p.spec)
	p.steady(status, err)
	p.registrar.take()
}

// takesBack: a change with which the API server does not become ready is rolled back.
func (p *podStage) takesBack() {
	good := p.spec.ExtraArgs[release.APIServer]
	p.spec.ExtraArgs[release.APIServer] = map[string]string{"event-ttl": "never"}
	_, err := p.replicas.Update(p.ctx, p.spec)
	if err == nil || !strings.Contains(err.Error(), "rolled back to") {
		p.Errorf("a change that fails: %v", err)
	}
	p.spec.ExtraArgs[release.APIServer] = good
	status, err := p.replicas.Read(p.ctx, p.spec)
	p.steady(status, err)
	p.registrar.take()
}

// moves: the components become units and static pods again, each time by users of their own. What was cut off before
// they are defined anew is repeated.
func (p *podStage) moves() {
	const shown = "ps -o user:32= -C kube-apiserver,kube-controller-manager,kube-scheduler | sort -u | tr '\\n' ' '; " +
		"stat -c %U /etc/kubernetes/pki/apiserver.key /etc/kubernetes/pki/sa.key | sort -u | tr '\\n' ' '; ls -A " +
		staticpod.Directory + " | wc -l; find " + component.AuditLogDir + " -printf '%u\\n' | sort -u"
	repository := p.spec.ImageRepository
	for _, to := range []struct{ runtime, repository, want string }{
		{"", "", "kube-apiserver kube-controller-manager kube-scheduler kube-apiserver 0\nkube-apiserver\n"},
		{component.StaticPod, repository, "root root 3\n"},
	} {
		p.spec.Runtime, p.spec.ImageRepository = to.runtime, to.repository
		began := time.Now()
		p.updates()
		p.Logf("to %q after %s", to.runtime, time.Since(began).Round(time.Second))
		if got := p.run(shown); !strings.HasPrefix(got, to.want) {
			p.Errorf("after a move to %q:\n%s", to.runtime, got)
		}
	}
	before := p.starts()
	f, err := machine.Inspect(p.ctx, p.spec.Host, p.spec.Replica)
	if err == nil {
		err = leaveRuntime(p.ctx, p.spec, f.Runtime())
	}
	if err != nil {
		p.Fatal(err)
	}
	p.expect("containers of a replica that has left its runtime", len(p.containers()), 0)
	p.updates() // and stays
	p.expect("restarted", p.changed(before, p.starts()), strings.Join(release.Components(), " "))
}

// pauses: while its etcd member changes, the components do not run.
func (p *podStage) pauses() {
	outage := p.replicas.Outage(StackedMember{
		Host: p.spec.Host, Bundle: p.spec.Bundle, EtcdURL: p.spec.EtcdURLs[0],
		Registrar: func(Recorded) (Registrar, error) { return p.registrar, nil },
	})
	end := outage.Open()
	defer end()
	if err := outage.Begins(p.ctx); err != nil {
		p.Fatal(err)
	}
	p.expect("containers of a paused replica", len(p.containers()), 0)
	if err := outage.Ended(p.ctx); err != nil {
		p.Fatal(err)
	}
	status, err := p.replicas.Read(p.ctx, p.spec)
	p.steady(status, err)
	p.registrar.take()
}

// cutsPower restarts the machine without its shutting down.
func (p *podStage) cutsPower() {
	p.Helper()
	if err := p.machine.PowerOff(p.ctx); err != nil {
		p.Fatal(err)
	}
	if err := p.machine.Boot(p.ctx); err != nil {
		p.Fatal(err)
	}
	p.reached()
}

// bootsPaused: what is paused while the power is cut returns with the change of another replica, or of its member.
func (p *podStage) bootsPaused() {
	member := StackedMember{
		Host: p.spec.Host, Bundle: p.spec.Bundle, EtcdURL: p.spec.EtcdURLs[0],
		Registrar: func(Recorded) (Registrar, error) { return p.registrar, nil },
	}
	another := p.spec
	another.Name = "cp2"
	p.registrar.out = map[string]string{"cp1": p.spec.ServingAddress()}
	for _, c := range []struct {
		by      string
		returns func() error
	}{
		{"the member's next change", func() error { return p.replicas.Outage(member).Ended(p.ctx) }},
		{"another replica", func() error {
			p.replicas.returnToRotation(p.ctx, another, false, time.Now().Add(time.Minute))
			return nil
		}},
	} {
		outage := p.replicas.Outage(member)
		end := outage.Open()
		if err := outage.Begins(p.ctx); err != nil {
			p.Fatal(err)
		}
		end() // the run ends
		p.cutsPower()
		p.awaits("etcd runs after the boot", func() bool {
			return p.run("systemctl is-active etcd.service || :") == "active\n"
		})
		p.expect("containers after the boot", len(p.containers()), 0)
		p.registrar.take()
		if err := c.returns(); err != nil {
			p.Fatalf("%s: %v", c.by, err)
		}
		p.expect("calls of "+c.by, p.registrar.take(), []string{"register"})
		status, err := p.replicas.Read(p.ctx, p.spec)
		p.steady(status, err)
	}
	p.registrar.out = nil
}

// boots: after a power cut the kubelet starts the components.
func (p *podStage) boots() {
	p.cutsPower()
	p.awaits("no drift after a boot", func() bool {
		status, err := p.replicas.Read(p.ctx, p.spec)
		unready := func(c Component) bool { return !c.Healthy }
		return err == nil && len(status.Drift) == 0 && !slices.ContainsFunc(status.Components, unready)
	})
	status, err := p.replicas.Read(p.ctx, p.spec)
	p.steady(status, err)
}

// imported: the machine says everything that the configuration of the replica has.
func (p *podStage) imported() {
	got, err := p.replicas.Import(p.ctx, p.spec.Host, EndpointReader{At: func(json.RawMessage) (RegisteredAt, error) {
		return RegisteredAt{Address: p.spec.EndpointHost}, nil
	}})
	if err != nil {
		p.Fatal(err)
	}
	p.expect("runtime", got.Runtime, component.StaticPod)
	p.expect("image repository", got.ImageRepository, podVersions)
	p.expect("version", got.Version, p.spec.Version)
	p.expect("extra arguments", got.ExtraArgs, p.spec.ExtraArgs)
}

// deleted: nothing of the replica stays on the machine.
func (p *podStage) deleted() {
	if err := p.replicas.Delete(p.ctx, p.spec, DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.expect("containers of a deleted replica", len(p.containers()), 0)
	p.expect("files of a deleted replica", p.run("find /etc/kubernetes -type f ! -path '*/etcd/*'; ls -A "+
		staticpod.Directory+"; ls -d "+pod.Dir+" 2>/dev/null || :; ls -A /srv/facts"), "")
	if _, err := p.replicas.Read(p.ctx, p.spec); err == nil {
		p.Error("it is still there")
	}
}

// drifts expects a text in the drift, as soon as the kubelet has done what it does about an edit.
func (p *podStage) drifts(text string) {
	p.Helper()
	p.awaits("drift is "+text, func() bool {
		status, err := p.replicas.Read(p.ctx, p.spec)
		return err == nil && strings.Contains(strings.Join(status.Drift, "\n"), text)
	})
}

// awaits waits for what the kubelet does by itself.
func (p *podStage) awaits(what string, done func() bool) {
	p.Helper()
	for deadline := time.Now().Add(kubeletDelay * 2); !done(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			status, err := p.replicas.Read(p.ctx, p.spec)
			p.Fatalf("%s: not after %s: %q, %v", what, kubeletDelay*2, status.Drift, err)
		}
	}
}
