package acceptance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// installNode is installNodeOf with the newest releases.
func installNode(t *testing.T, m *lab.Machine, unit string) {
	t.Helper()
	installNodeOf(t, m, unit, "kubernetes-1.36-node", "kubernetes")
}

// installNodeOf makes the machine one whose kubelet can run a control plane: containerd, kubelet and kubeadm of a
// release, a unit of the kubelet, which is not started, and the images of releases and of the newest etcd.
func installNodeOf(t *testing.T, m *lab.Machine, unit, node string, releases ...string) {
	t.Helper()
	programs := nodePrograms(t, node)
	if err := m.RebuildForContainers(t.Context(), podImage); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubeadm", "kubelet"} {
		upload(t, m, filepath.Join(programs, name), "/usr/bin/"+name, "755")
	}
	etcd := release(t, "etcd")
	images := map[string]string{"registry.k8s.io/etcd:" + etcd + "-0": "etcd-v" + etcd + "/etcd"}
	for _, each := range releases {
		version := release(t, each)
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			images["registry.k8s.io/"+name+":v"+version] = "kubernetes-v" + version + "/" + name
		}
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	for reference, program := range images {
		if err := build.ProgramImage(t.Context(), reference, filepath.Join(shared.components, program), archive); err != nil {
			t.Fatal(err)
		}
		importImage(t, m, archive)
	}
	if err := build.PodImage(t.Context(), podImage, archive); err != nil {
		t.Fatal(err)
	}
	importImage(t, m, archive)
	uploadText(t, m, "/etc/systemd/system/kubelet.service", unit)
	onMachine(t, m, "systemctl daemon-reload && systemctl enable --quiet kubelet")
}

func importImage(t *testing.T, m *lab.Machine, archive string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := m.ImportImage(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}
