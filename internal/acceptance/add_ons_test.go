package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// dnsImage is the image of CoreDNS on the worker.
const dnsImage = "registry.example.com/coredns:1"

// routed is what a network plugin has to do, so that Pods reach what is outside of their network.
const routed = `sed -i 's|"host-local", |&"routes": [{"dst": "0.0.0.0/0"}], |' /etc/cni/net.d/10-lab.conflist
iptables -t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE`

// tool returns the path of a program that make long-setup builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	program, err := build.Set(t.Context(), name)
	if err != nil {
		testrun.Missing(t, "kube-lab build "+name+": "+err.Error())
	}
	return program
}

// TestAddOns applies examples/add-ons with the real helm provider, joins a worker, and asks CoreDNS on it.
func TestAddOns(t *testing.T) {
	machines(t)
	helm, coredns := tool(t, "helm-provider"), tool(t, "coredns")
	version, err := build.Version("helm-provider")
	if err != nil {
		t.Fatal(err)
	}
	s := &joinStory{names: []string{"cp1"}, joins: "kubernetes-1.34-node"}
	dir := filepath.Join(checkout(t), "examples", "add-ons")
	s.w = storyFrom(t, append(s.names, workerName), dir, func(w *workspace.Workspace) error {
		w.Others = []workspace.Other{{Source: "hashicorp/helm", Version: version, Program: helm}}
		w.Env = append(w.Env, "KUBE_LOAD_CONFIG_FILE=false") // this release reads ~/.kube/config otherwise
		return w.MakeFrom(t.Context(), os.DirFS(dir), t.Output())
	})
	s.node = shared.lab.Machine(workerName)
	rebuiltAfter(t, workerName)
	bare := fingerprints(t, s.names...)
	if err := s.w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(s.names), "kubelet_config": "cgroupDriver: cgroupfs\nfailSwapOn: false\n",
		"coredns_image": dnsImage, "dns_upstream": address(workerName),
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, s.w)
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))

	s.prepare(t)
	archive := filepath.Join(t.TempDir(), "coredns.tar")
	if err := build.ProgramImage(t.Context(), dnsImage, coredns, archive); err != nil {
		t.Fatal(err)
	}
	importArchive(t, s.node, archive)
	onMachine(t, s.node, routed+"\napt-get install -y -q bind9-dnsutils >/dev/null 2>&1")
	t.Log(onMachine(t, s.node, "timeout 120 "+outputOf(t, s.w, "join")))
	s.expectReady(t)
	s.resolves(t)

	resources, err := s.w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Type == "helm_release" && strings.Contains(string(r.Values), "BEGIN ") {
			t.Errorf("the state of the add-on has a certificate or a key: %s", r.Values)
		}
	}
	expectEmptyPlan(t, s.w)
	apply(t, s.w, "-destroy")
	expectBare(t, bare, s.names...)
}

// resolves waits until CoreDNS is ready, and asks each of its Pods for the Service of the API.
func (s *joinStory) resolves(t *testing.T) {
	t.Helper()
	const deployment = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
	const pods = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"
	var is apps.Deployment
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%s", is.Status, onMachine(t, s.node, `journalctl -u kubelet -n 40 --no-pager
tail -n 20 /var/log/pods/kube-system_coredns-*/*/*.log`))
		}
	}()
	awaitFor(t, 3*time.Minute, "CoreDNS is not ready", func() bool {
		code, _, err := s.admin.call(context.WithoutCancel(t.Context()), endpointURL, "GET", deployment, nil, &is)
		return err == nil && code == 200 && is.Status.ReadyReplicas == 2
	})
	var list core.PodList
	s.admin.must(t, endpointURL, "GET", pods, nil, &list)
	for _, pod := range list.Items {
		got := onMachine(t, s.node, fmt.Sprintf("dig +short +timeout=2 @%s kubernetes.default.svc.cluster.local",
			pod.Status.PodIP))
		if got != "10.96.0.1\n" {
			t.Errorf("Pod %s at %s answers %q", pod.Name, pod.Status.PodIP, got)
		}
	}
	if len(list.Items) != 2 {
		t.Errorf("%d Pods of CoreDNS", len(list.Items))
	}
}
