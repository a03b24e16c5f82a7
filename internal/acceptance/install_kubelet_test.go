package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// installOverride makes all components static pods of kubelets that are installed.
const installOverride = `
resource "kube_etcd_member" "this" {
  runtime         = "static_pod"
  install_kubelet = { version = %[1]q }
}

resource "kube_control_plane_replica" "this" {
  runtime         = "static_pod"
  install_kubelet = { version = %[1]q }
  manage_kubelet  = true
}
`

// TestInstallKubelet: a control plane of static pods on machines that have neither a kubelet nor a container runtime.
// Members and replicas find each other there, one of each is replaced, and nothing is left when they are destroyed.
func TestInstallKubelet(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	machines(t)
	for _, name := range names {
		m := shared.lab.Machine(name)
		rebuildAfter(t, m)
		if err := m.RebuildWithoutRuntime(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bare := fingerprints(t, names...)
	w := newStory(t, names...)
	giveArchives(t, w)
	override(t, w, fmt.Sprintf(runtimeOverride, "static_pod"))
	expectContains(t, refused(t, w), "or set install_kubelet")
	override(t, w, fmt.Sprintf(installOverride, release(t, "kubernetes")))
	apply(t, w)
	expectRunBy(t, names, "", "etcd kube-apiserver kube-controller-manager kube-scheduler")
	clients := startLoad(t, outputOf(t, w, "kubeconfig"), "cp1", "cp3")
	apply(t, w, `-replace=kube_control_plane_replica.this["cp2"]`, `-replace=kube_etcd_member.this["cp2"]`)
	undisturbed(t, clients)
	expectRunBy(t, names, "", "etcd kube-apiserver kube-controller-manager kube-scheduler")
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// giveArchives gives a configuration a directory with programs, the kubelet, and archives of all images.
func giveArchives(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	nodePrograms(t, "kubernetes-1.36-node") // they are there
	dir := t.TempDir()
	programs := map[string][]string{
		"etcd-v" + release(t, "etcd"):             {"etcd"},
		"kubernetes-v" + release(t, "kubernetes"): {"kube-apiserver", "kube-controller-manager", "kube-scheduler"},
	}
	image := func(reference, program, archive string) {
		t.Helper()
		if err := build.ProgramImage(t.Context(), reference, program, archive); err != nil {
			t.Fatal(err)
		}
	}
	for product, names := range programs {
		from, to := filepath.Join(shared.components, product), filepath.Join(dir, product)
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(from, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.Symlink(file, filepath.Join(to, filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		_, version, _ := strings.Cut(product, "-v")
		tag := ":v" + version
		if names[0] == "etcd" {
			tag = ":" + version + "-0"
		}
		for _, name := range names {
			image("registry.k8s.io/"+name+tag, filepath.Join(from, name), filepath.Join(to, name+".tar"))
		}
	}
	pause := filepath.Join(dir, "kubernetes-v"+release(t, "kubernetes"), "pause.tar")
	if err := build.PodImage(t.Context(), node.DefaultSandboxImage, pause); err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{"artifacts": map[string]any{"directory": dir}}
	if err := w.WriteJSON("z.auto.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
}
