package etcd

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestInstallKubeletOnMachine: a static pod on a machine that has neither a kubelet nor a container runtime gets both,
// and the last one takes them with it.
func TestInstallKubeletOnMachine(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcdnode", Subnet: netip.MustParsePrefix("10.56.0.0/24"), Machines: []string{"cp1"},
	}, []string{newRelease}, testInstallKubelet)
}

func testInstallKubelet(t *testing.T) {
	version, err := build.Version("kubernetes-1.36-node")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(components(), "kubernetes-v"+version, "kubelet")
	if _, err := os.Stat(program); err != nil {
		testrun.Missing(t, "kube-lab build kubernetes-1.36-node makes kubelet")
	}
	images := imageSource(t)
	dir := filepath.Join(images.Directory, "kubernetes-v"+version)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if err := build.PodImage(t.Context(), node.DefaultSandboxImage, filepath.Join(dir, "pause.tar")); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	if err := r.lab.Machine("cp1").RebuildWithoutRuntime(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = newRig(t) // with the machine's new host key
	r.clusters.pace.ConditionTimeout = 10 * time.Second
	const state = "dpkg-query -W -f '${Package} ${Version}\\n'; ls -d /etc/containerd /etc/kube-node /var/lib/kube-node " +
		"/etc/systemd/system/kubelet.service* /opt/kube /etc/kubernetes/manifests 2>/dev/null; " +
		"systemctl is-active kubelet containerd; true"
	before := r.sh("cp1", state)
	one := r.specs["cp1"]
	one.Peers = map[string]*host.Host{"cp1": one.Host}
	one.Runtime, one.Source = machine.StaticPod, images
	etcdtest.WantError(t, "a machine without a kubelet", r.create(t.Context(), one), "or set install_kubelet")
	one.InstallKubelet = &node.Wanted{Version: version}
	begun := time.Now()
	if err := r.create(t.Context(), one); err != nil {
		t.Log(r.sh("cp1", "journalctl -u kubelet -u containerd -n 40 --no-pager | cut -c 1-400"))
		t.Fatal(err)
	}
	t.Logf("created after %s", time.Since(begun).Round(time.Second))
	r.serves(one)
	t.Log(r.sh("cp1", "cat /etc/kube-node/installed.json /var/lib/kubelet/config.yaml; containerd --version; "+
		"ctr -n k8s.io tasks ls"))
	if err := r.create(t.Context(), one); err != nil { // as after a lost state
		t.Fatal(err)
	}
	if err := r.lab.Machine("cp1").PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.lab.Machine("cp1").Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.serves(one)
	if err := r.delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if after := r.sh("cp1", state); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	left := r.sh("cp1", "ls -A /var/lib/kubelet /var/lib/containerd 2>/dev/null; true")
	if strings.Contains(left, "config") {
		t.Errorf("left: %s", left)
	}
}
