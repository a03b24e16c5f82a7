package controlplane

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestInstallKubeletForReplica: a replica of static pods on a machine that has neither a kubelet nor a container
// runtime gets both, with archives of all images, and takes them with it.
func TestInstallKubeletForReplica(t *testing.T) {
	testrun.Long(t)
	p := newPodStage(t)
	if err := p.machine.RebuildWithoutRuntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.reconnects()
	const state = "dpkg-query -W -f '${Package} ${Version}\\n'; ls -d /etc/containerd /etc/kube-node /var/lib/kube-node " +
		"/etc/systemd/system/kubelet.service* 2>/dev/null || true; ls /opt/kube 2>/dev/null || true; " +
		"systemctl is-active kubelet containerd || true"
	before := p.run(state)
	p.spec.Runtime, p.spec.Source = component.StaticPod, p.archives()
	p.spec.InstallKubelet, p.spec.ManageKubelet = &node.Wanted{Version: labVersion}, true
	p.startEtcd(p.spec.Address)
	began := time.Now()
	status, err := p.replicas.Create(p.ctx, p.spec)
	p.Logf("created in %.1f s", time.Since(began).Seconds())
	if err != nil {
		p.explain()
	}
	p.steady(status, err)
	p.expect("the kubelet", p.run(runningKubelet), kubelet.Artifact(labVersion).Path()+"\n")
	starts := p.containers()
	p.updates()
	p.expect("restarted by an update", p.changed(starts, p.containers()), "")
	if err := p.replicas.Delete(p.ctx, p.spec, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.run("rm -rf /opt/kube/etcd; rmdir /opt/kube 2>/dev/null || true") // of the test
	p.expect("what is left", p.run(state), before)
}

// archives returns a source with the kubelet and archives of all images, as air-gapped machines get them.
func (p *podStage) archives() host.Source {
	p.Helper()
	programs := filepath.Join(machines.source.Directory, "kubernetes-v"+labVersion)
	if _, err := os.Stat(filepath.Join(programs, "kubelet")); err != nil {
		testrun.Missing(p.T, "kube-lab build kubernetes-1.36-node makes kubelet")
	}
	source := host.Source{Directory: p.TempDir()}
	dir := filepath.Join(source.Directory, "kubernetes-v"+labVersion)
	if err := os.Mkdir(dir, 0o700); err != nil {
		p.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(programs, "kubelet"), filepath.Join(dir, "kubelet")); err != nil {
		p.Fatal(err)
	}
	s := p.spec.Replica
	s.Version = labVersion
	for _, image := range pod.Images(s) {
		name := filepath.Base(image.Archive.Path())
		program := filepath.Join(programs, name[:len(name)-len(filepath.Ext(name))])
		if err := build.ProgramImage(p.ctx, image.Reference, program, filepath.Join(dir, name)); err != nil {
			p.Fatal(err)
		}
	}
	if err := build.PodImage(p.ctx, node.DefaultSandboxImage, filepath.Join(dir, "pause.tar")); err != nil {
		p.Fatal(err)
	}
	return source
}
