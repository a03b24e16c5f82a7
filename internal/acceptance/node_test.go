package acceptance

import (
	"os"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// installNode is installNodeOf with the newest releases.
func installNode(t *testing.T, m *lab.Machine, unit string) {
	t.Helper()
	installNodeOf(t, m, unit, "kubernetes-1.36-node", "etcd", "kubernetes")
}

// installNodeOf makes the machine one whose kubelet can run a control plane: containerd, kubelet and kubeadm of a
// release, a unit of the kubelet, as in services.Node, which is not started, and the images of etcd, if it is not "",
// and of releases of Kubernetes.
func installNodeOf(t *testing.T, m *lab.Machine, unit, node, etcd string, releases ...string) {
	t.Helper()
	nodePrograms(t, node) // they are there
	version, err := build.Version(node)
	if err != nil {
		t.Fatal(err)
	}
	n := services.Node{
		Components: shared.components, Release: version, Unit: unit,
	}
	if etcd != "" {
		n.Etcd = release(t, etcd)
	}
	for _, each := range releases {
		n.Kubernetes = append(n.Kubernetes, release(t, each))
	}
	if err := services.InstallNode(t.Context(), m, n); err != nil {
		t.Fatal(err)
	}
}

// importArchive gives a machine the image of an archive.
func importArchive(t *testing.T, m *lab.Machine, path string) {
	t.Helper()
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	if err := m.ImportImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}
