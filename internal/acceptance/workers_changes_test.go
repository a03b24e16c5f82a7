package acceptance

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
)

// configure writes the settings that the story changes. authentication is that of the guide. The computer has cgroups
// v1 and no swap limits.
func (s *joinStory) configure(t *testing.T) {
	t.Helper()
	rotation := "null"
	if s.rotation > 0 {
		rotation = fmt.Sprintf("{ kubernetes = %[1]d, etcd = %[1]d, front_proxy = %[1]d, service_account = %[1]d }",
			s.rotation)
	}
	balancers, replicas := "", ""
	authentication := guideBlock(t, "workers", "hcl", "anonymous_paths")
	if s.refuses {
		authentication = ""
	}
	if s.tunnel {
		balancers = `
resource "kube_control_plane_endpoint" "this" {
  haproxy = {
    hosts        = var.machines
    konnectivity = {}
  }
}
`
		replicas = `konnectivity = { program = "` + proxyServer + `" }`
	}
	override(t, s.w, fmt.Sprintf(balancers+`
resource "kube_pki_bundle" "this" {
  rotation = %s
}

resource "kube_control_plane_replica" "this" {
  verify_kubelets = %t
  %s
  %s
}

resource "kube_node_bootstrap" "this" {
  kubelet_config = yamlencode({
    cgroupDriver = "cgroupfs", failSwapOn = false, failCgroupV1 = false, serverTLSBootstrap = %t
  })
}
`, rotation, s.serving, authentication, replicas, s.serving))
}

// endedTokens: kubeadm refuses a token that has expired, and one that was revoked after it was handed out. Both
// resources plan what follows: nothing, and that it is gone.
func (s *joinStory) endedTokens(t *testing.T) {
	s.tokens(t, map[string]string{"first": "30m", "short": "10s", "revoked": "30m"})
	applyOnly(t, s.w, "a token expires before the next plan")
	short, revoked := s.command(t, "short"), s.command(t, "revoked")
	s.tokens(t, map[string]string{"first": "30m", "short": "10s"})
	id := textOf(valuesOf(t, s.w, `kube_bootstrap_token.this["short"]`), "token_id")
	await(t, "the token does not expire", func() bool {
		var info core.ConfigMap
		_, _, err := s.admin.call(t.Context(), endpointURL, "GET", infoPath, nil, &info)
		return err == nil && len(info.Data) > 0 && info.Data["jws-kubeconfig-"+id] == ""
	})
	apply(t, s.w) // and the next plan is empty, with the expired token in the state
	for name, command := range map[string]string{"expired": short, "revoked": revoked} {
		output, err := s.node.Run(t.Context(), "timeout 10 "+command+
			" --node-name=other --ignore-preflight-errors=all --v=1") // kubeadm would try for five minutes
		if err == nil || !strings.Contains(output, "could not find a JWS signature in the cluster-info ConfigMap") {
			t.Errorf("kubeadm join with an %s token: %v:\n%s", name, err, output)
		}
	}
	id = textOf(valuesOf(t, s.w, `kube_bootstrap_token.this["first"]`), "token_id")
	s.admin.must(t, endpointURL, "DELETE", systemSecrets+"/bootstrap-token-"+id, nil, nil)
	expectContains(t, plan(t, s.w), "the token was deleted before it expired", "will be created")
	apply(t, s.w)
}

// rotated: the worker is ready in every stage of a rotation of all authorities, and after it.
func (s *joinStory) rotated(t *testing.T) {
	started := s.podStarted(t)
	for s.rotation < 3 {
		s.rotation++
		s.configure(t)
		applyOnly(t, s.w, "its plan follows")
		expectEmptyPlan(t, s.w)
		s.expectHeartbeat(t)
		s.expectStreams(t, "first")
		if s.rotation == 2 {
			s.renew(t)
			s.expectHeartbeat(t)
		}
	}
	s.expectStarted(t, started)
	s.runPod(t, "second")
}

// upgraded: the worker runs on while the control plane gets another minor, which kubeadm learns at its end.
func (s *joinStory) upgraded(t *testing.T) {
	started := s.podStarted(t)
	s.version = release(t, "kubernetes")
	s.tokens(t, s.issued)
	apply(t, s.w)
	s.expectHeartbeat(t)
	s.expectStreams(t, "first")
	s.expectStarted(t, started)
	var config core.ConfigMap
	s.admin.must(t, endpointURL, "GET", "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", nil, &config)
	expectContains(t, config.Data["ClusterConfiguration"], "kubernetesVersion: v"+s.version)
}

// renew does what the guide says between the second and the third stage.
func (s *joinStory) renew(t *testing.T) {
	t.Helper()
	uploadText(t, s.node, "/etc/kubernetes/bootstrap-kubelet.conf", s.ofToken(t, "join_files", "first"))
	t.Log(onMachine(t, s.node, "set -e\n"+documentedScript(t, "workers", 3)))
	s.approve(t)
	await(t, "the API server does not accept the kubelet", func() bool {
		_, err := s.kubectl(t, "logs", "first")
		return err == nil
	})
}

// expectStarted reports that Pod first was started again, if it was: it was started then.
func (s *joinStory) expectStarted(t *testing.T, then string) {
	t.Helper()
	if now := s.podStarted(t); now != then {
		t.Errorf("the Pod was started again: %s, before %s", now, then)
	}
}

// podStarted returns when the container of Pod first was started.
func (s *joinStory) podStarted(t *testing.T) string {
	t.Helper()
	var pod core.Pod
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	s.admin.must(t, endpointURL, "GET", podsPath+"/first", nil, &pod)
	if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
		t.Fatalf("Pod first does not run: %+v", pod.Status)
	}
	return pod.Status.ContainerStatuses[0].State.Running.StartedAt.String()
}

// expectHeartbeat waits until the kubelet has renewed its Lease from now on, and the node is ready.
func (s *joinStory) expectHeartbeat(t *testing.T) {
	t.Helper()
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	began := time.Now()
	awaitFor(t, 90*time.Second, "the kubelet does not renew its Lease", func() bool {
		var lease coordination.Lease
		_, _, err := s.admin.call(t.Context(), endpointURL, "GET",
			"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+workerName, nil, &lease)
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(began)
	})
	s.expectReady(t)
}

// restarted: the worker stays through a restart of the only API server, and comes back after a loss of its power.
func (s *joinStory) restarted(t *testing.T) {
	onMachine(t, shared.lab.Machine("cp1"), "systemctl restart kube-apiserver")
	s.expectHeartbeat(t)
	s.expectStreams(t, "first")
	if err := s.node.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.node.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expectHeartbeat(t)
	awaitFor(t, 2*time.Minute, "Pods do not run again", func() bool {
		_, err := s.kubectl(t, "exec", "first", "--", "/pod", "echo", "again")
		return err == nil
	})
	expectEmptyPlan(t, s.w)
}

// scaled: the worker notices nothing of a control plane that grows from one machine to three.
func (s *joinStory) scaled(t *testing.T) {
	started := s.podStarted(t)
	s.names = []string{"cp1", "cp2", "cp3"}
	choose(t, s.w, s.names...)
	apply(t, s.w)
	s.expectHeartbeat(t)
	s.expectStarted(t, started)
	s.runPod(t, "third")
}

// holderLost: the worker follows the virtual IP to another machine.
func (s *joinStory) holderLost(t *testing.T) {
	started := s.podStarted(t)
	m := holder(t, s.names...)
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expectHeartbeat(t)
	s.expectStreams(t, "third")
	s.expectStarted(t, started)
	t.Logf("the worker renews its Lease without %s", m.Name)
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitFor(t, 3*time.Minute, "the control plane is not as before", func() bool {
		_, changes, err := s.w.Plan(t.Context())
		return err == nil && !changes
	})
}

// replaced: the node is taken out of the cluster, and its machine joins with kubeadm and kubelet of the control plane's
// release, which need to be told that cgroups v1 are wanted.
func (s *joinStory) replaced(t *testing.T) {
	for _, args := range [][]string{
		{"drain", workerName, "--force", "--ignore-daemonsets", "--timeout=60s"}, {"delete", "node", workerName},
	} {
		if text, err := s.kubectl(t, args...); err != nil {
			t.Fatalf("kubectl %s: %v: %s", args[0], err, text)
		}
	}
	t.Log(onMachine(t, s.node, "kubeadm reset --force"))
	s.install(t, s.newer)
	s.tokens(t, map[string]string{"newer": "30m"})
	apply(t, s.w)
	s.join(t, "newer", " --ignore-preflight-errors=SystemVerification")
	s.approve(t)
	if node, want := s.nodeObject(t), "v"+release(t, "kubernetes"); node == nil ||
		node.Status.NodeInfo.KubeletVersion != want {
		t.Errorf("the node is not of %s: %+v", want, node)
	}
	s.runPod(t, "fourth")
}

// deleted: the objects end with their resource, and the token that is left is named. The node stays.
func (s *joinStory) deleted(t *testing.T) {
	var log strings.Builder
	if _, err := s.w.Apply(t.Context(), io.MultiWriter(t.Output(), &log), "-destroy",
		"-target=kube_node_bootstrap.this"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		infoPath, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config",
		rbacPath + "clusterrolebindings/kubeadm:kubelet-bootstrap",
	} {
		if code, text, err := s.admin.call(t.Context(), endpointURL, "GET", path, nil, nil); code != 404 {
			t.Errorf("%s after the delete: HTTP %d, %v: %s", path, code, err, text)
		}
	}
	if !s.ready(t) {
		t.Error("the node is not ready any more")
	}
	apply(t, s.w)
}
