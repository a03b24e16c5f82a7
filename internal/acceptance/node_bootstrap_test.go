package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// workersConfig lets workers join. The computer has cgroups v1 and no swap limits.
const workersConfig = `
resource "kube_node_bootstrap" "this" {
  pki            = kube_pki_bundle.this.bundle
  endpoint       = kube_control_plane_endpoint.this.registration
  version        = var.kubernetes_version
  service_cidrs  = var.service_cidrs
  pod_cidrs      = var.pod_cidrs
  kubelet_config = yamlencode({ cgroupDriver = "cgroupfs", failSwapOn = false })

  depends_on = [kube_control_plane_replica.this]
}
` + tokensConfig

// tokensConfig has bootstrap tokens for a kube_node_bootstrap, and what workers get to know.
const tokensConfig = `
variable "tokens" {
  type    = map(string)
  default = {}
}

resource "kube_bootstrap_token" "this" {
  for_each = var.tokens

  pki      = kube_pki_bundle.this.bundle
  endpoint = kube_control_plane_endpoint.this.registration
  validity = each.value

  depends_on = [kube_node_bootstrap.this]
}

output "joins" {
  value     = { for name, token in kube_bootstrap_token.this : name => token.join_command }
  sensitive = true
}

output "join_files" {
  value     = { for name, token in kube_bootstrap_token.this : name => token.discovery_file }
  sensitive = true
}

output "discovery_file" {
  value = kube_node_bootstrap.this.discovery_file
}
`

// workersByGuide returns the configuration of the guide "Join workers" that this test applies. It replaces prod by
// this, as in the examples, and the pairs of the test.
func workersByGuide(t *testing.T, pairs ...string) string {
	t.Helper()
	return replaced(t, strings.Join(documentedConfigurations(t, "workers"), "\n"), append(pairs, ".prod", ".this")...)
}

// openDiscovery opens cluster-info to everybody, as kubeadm join needs it.
const openDiscovery = `
resource "kube_control_plane_replica" "this" {
  authentication = { anonymous_paths = ["/api/v1/namespaces/kube-public/configmaps/cluster-info"] }
}
`

// bootstrapStory is a control plane of one machine and no worker: what happens to the objects that workers read.
type bootstrapStory struct {
	w      *workspace.Workspace
	admin  credentials
	server string
	bound  map[string]any // rights that the provider has applied, by path
}

// rights are the paths of what kubeadm and the provider bind.
var rights = []string{
	"clusterroles/kubeadm:get-nodes", "clusterrolebindings/kubeadm:get-nodes",
	"clusterrolebindings/kubeadm:kubelet-bootstrap",
	"clusterrolebindings/kubeadm:node-autoapprove-bootstrap",
	"clusterrolebindings/kubeadm:node-autoapprove-certificate-rotation",
	"namespaces/kube-system/roles/kubeadm:nodes-kubeadm-config",
	"namespaces/kube-system/rolebindings/kubeadm:nodes-kubeadm-config",
	"namespaces/kube-system/roles/kubeadm:kubelet-config", "namespaces/kube-system/rolebindings/kubeadm:kubelet-config",
	"namespaces/kube-public/roles/kubeadm:bootstrap-signer-clusterinfo",
	"namespaces/kube-public/rolebindings/kubeadm:bootstrap-signer-clusterinfo",
}

const (
	rbacPath      = "/apis/rbac.authorization.k8s.io/v1/"
	configPath    = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
	infoPath      = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	systemSecrets = "/api/v1/namespaces/kube-system/secrets"
)

// TestNodeBootstrap: what others change is shown field by field and repaired without touching the rest. Objects of
// kubeadm are the same, are refused, and can be adopted. An ephemeral token exists during an apply only.
func TestNodeBootstrap(t *testing.T) {
	s := &bootstrapStory{bound: map[string]any{}}
	s.w = newStory(t, "cp1")
	extend(t, s.w, workersConfig)
	override(t, s.w, openDiscovery)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"created", s.created},
		{"repaired", s.repaired},
		{"ephemeral token", s.ephemeral},
		{"kubeadm's objects", s.adopted},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, s.w, "-destroy")
}

func (s *bootstrapStory) created(t *testing.T) {
	apply(t, s.w)
	s.admin, s.server = credentialsOf(t, outputOf(t, s.w, "kubeconfig")), servers("cp1")[0]
	for _, path := range rights {
		s.bound[path] = s.rights(t, path)
	}
}

// rights returns what an object grants.
func (s *bootstrapStory) rights(t *testing.T, path string) any {
	t.Helper()
	var object map[string]any
	s.admin.must(t, s.server, "GET", rbacPath+path, nil, &object)
	return []any{object["rules"], object["roleRef"], object["subjects"]}
}

func (s *bootstrapStory) version(t *testing.T, path string) string {
	t.Helper()
	var object core.ConfigMap
	s.admin.must(t, s.server, "GET", path, nil, &object)
	return object.ResourceVersion
}

func (s *bootstrapStory) repaired(t *testing.T) {
	before := s.version(t, infoPath)
	s.admin.must(t, s.server, "DELETE", rbacPath+"clusterrolebindings/kubeadm:get-nodes", nil, nil)
	var config core.ConfigMap
	s.admin.must(t, s.server, "GET", configPath, nil, &config)
	config.Data["kubelet"] = strings.Replace(config.Data["kubelet"], "cgroupDriver: cgroupfs", "cgroupDriver: systemd", 1)
	config.Data["mine"] = "kept"
	s.admin.must(t, s.server, "PUT", configPath, config, nil)
	expectContains(t, plan(t, s.w), "ClusterRoleBinding kubeadm:get-nodes is missing",
		"ConfigMap kube-system/kubelet-config: kubelet: cgroupDriver is systemd instead of cgroupfs")
	apply(t, s.w)
	s.admin.must(t, s.server, "GET", configPath, nil, &config)
	if !strings.Contains(config.Data["kubelet"], "cgroupDriver: cgroupfs") || config.Data["mine"] != "kept" {
		t.Errorf("the repaired ConfigMap has %v", config.Data)
	}
	if after := s.version(t, infoPath); after != before {
		t.Errorf("cluster-info was written: resource version %s, before %s", after, before)
	}
}

// ephemeralUse logs in with the token of the guide in the apply, and keeps who it was.
const ephemeralUse = `
resource "terraform_data" "join" {
  provisioner "local-exec" {
    environment = { TOKEN = ephemeral.kube_bootstrap_token.join.token }
    command     = <<-EOT
      curl -s -k -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '{}' \
        -o ${path.module}/who ${kube_control_plane_endpoint.this.url}/apis/authentication.k8s.io/v1/selfsubjectreviews
    EOT
  }
}
`

func (s *bootstrapStory) ephemeral(t *testing.T) {
	extend(t, s.w, workersConfig+workersByGuide(t)+ephemeralUse)
	created := func() string {
		return onMachine(t, shared.lab.Machine("cp1"), `grep -c '"verb":"create".*"resource":"secrets".*"kube-system"' `+
			`/var/log/kube-apiserver/audit.log || true`)
	}
	before := created()
	plan(t, s.w)
	if after := created(); after != before {
		t.Errorf("a plan has created a token: %s Secrets created, before %s", after, before)
	}
	applyOnly(t, s.w, "tokens are counted before the next plan")
	if after := created(); after == before {
		t.Errorf("no token was created: %s Secrets", after)
	}
	who, err := os.ReadFile(filepath.Join(s.w.Dir, "who"))
	if err != nil || !strings.Contains(string(who), "system:bootstrappers:kubeadm:default-node-token") {
		t.Errorf("the token logs in as %s, %v", who, err)
	}
	var list core.SecretList
	s.admin.must(t, s.server, "GET", systemSecrets+"?fieldSelector=type%3Dbootstrap.kubernetes.io/token", nil, &list)
	if len(list.Items) != 0 {
		t.Errorf("%d tokens exist after the apply", len(list.Items))
	}
	expectEmptyPlan(t, s.w)
	extend(t, s.w, workersConfig)
	apply(t, s.w)
}

// adopted: real kubeadm creates the objects instead. They grant the same, and belong to kubeadm until adopt is set,
// and also afterwards, so that they stay.
func (s *bootstrapStory) adopted(t *testing.T) {
	apply(t, s.w, "-destroy", "-target=kube_node_bootstrap.this")
	s.kubeadm(t)
	for _, path := range rights {
		if got := s.rights(t, path); !reflect.DeepEqual(got, s.bound[path]) {
			t.Errorf("%s of kubeadm grants %v, and ours %v", path, got, s.bound[path])
		}
	}
	text := refused(t, s.w)
	expectContains(t, text, "Objects for joining workers belong to somebody else",
		"ConfigMap kube-public/cluster-info, managed by kubeadm", "nothing was changed", "adopt = true")
	override(t, s.w, openDiscovery+`
resource "kube_node_bootstrap" "this" {
  adopt = true
}
`)
	apply(t, s.w)
	var info core.ConfigMap
	s.admin.must(t, s.server, "GET", infoPath, nil, &info)
	if got := outputOf(t, s.w, "discovery_file"); got != info.Data["kubeconfig"] {
		t.Errorf("adopted cluster-info is\n%s", info.Data["kubeconfig"])
	}
	apply(t, s.w, "-destroy", "-target=kube_node_bootstrap.this")
	s.version(t, infoPath)
}

// kubeadm runs the phases of kubeadm init that create the objects.
func (s *bootstrapStory) kubeadm(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig, config := filepath.Join(dir, "admin.conf"), filepath.Join(dir, "config.yaml")
	version := release(t, "kubernetes")
	if err := os.WriteFile(kubeconfig, []byte(outputOf(t, s.w, "kubeconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint:\n"+
		"  advertiseAddress: %s\nnodeRegistration:\n  name: cp1\n---\napiVersion: kubeadm.k8s.io/v1beta4\n"+
		"kind: ClusterConfiguration\nkubernetesVersion: v%s\ncontrolPlaneEndpoint: %s:6443\n", address("cp1"), version, vip)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(shared.components, "kubernetes-v"+version, "kubeadm")
	for _, phase := range [][]string{{"upload-config", "kubeadm"}, {"upload-config", "kubelet"}, {"bootstrap-token"}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config", config, "--kubeconfig", kubeconfig)
		if phase[0] == "bootstrap-token" {
			args = append(args, "--skip-token-print")
		}
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Logf("kubeadm %v: %v: %s", phase, err, out) // the last step of a phase may need a node
		}
	}
	var list core.SecretList
	s.admin.must(t, s.server, "GET", systemSecrets+"?fieldSelector=type%3Dbootstrap.kubernetes.io/token", nil, &list)
	for _, item := range list.Items {
		t.Logf("kubeadm has made %s", item.Name)
		s.admin.must(t, s.server, "DELETE", systemSecrets+"/"+item.Name, nil, nil)
	}
	s.version(t, infoPath)
}
