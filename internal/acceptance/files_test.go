package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// filesStory is a control plane on two machines whose API servers read files of the user: an
// admission configuration, an authorization configuration with a webhook, and the webhook's
// kubeconfig, which is write-only.
type filesStory struct {
	w     *workspace.Workspace
	names []string
	admin credentials
}

const filesDir = "/etc/kubernetes/files/"

// filesVariables is the configuration of the files. The authorization configuration is
// reloaded; the admission configuration is not.
const filesVariables = `
variable "webhook" {
  type      = string
  ephemeral = true
}

variable "enforce" {
  type = string
}

variable "cache" {
  type = string
}

locals {
  admission = <<-EOT
    apiVersion: apiserver.config.k8s.io/v1
    kind: AdmissionConfiguration
    plugins:
    - name: PodSecurity
      configuration:
        apiVersion: pod-security.admission.config.k8s.io/v1
        kind: PodSecurityConfiguration
        defaults: { enforce: ${var.enforce} }
  EOT
  authorization = <<-EOT
    apiVersion: apiserver.config.k8s.io/v1
    kind: AuthorizationConfiguration
    authorizers:
    - { type: Node, name: node }
    - { type: RBAC, name: rbac }
    - type: Webhook
      name: policy
      webhook:
        authorizedTTL: ${var.cache}
        unauthorizedTTL: 30s
        timeout: 1s
        subjectAccessReviewVersion: v1
        matchConditionSubjectAccessReviewVersion: v1
        failurePolicy: NoOpinion
        connectionInfo: { type: KubeConfigFile, kubeConfigFile: /etc/kubernetes/files/webhook.conf }
        matchConditions: [{ expression: "request.user == 'nobody-ever'" }]
  EOT
}
`

const filesOverride = `
resource "kube_control_plane_replica" "this" {
  extra_args = { apiserver = {
    admission-control-config-file = "/etc/kubernetes/files/admission.yaml"
    authorization-config          = "/etc/kubernetes/files/authorization.yaml"
  } }
  files = {
    "admission.yaml"     = { content = local.admission, mode = "0644", owner = "root" }
    "authorization.yaml" = { content = local.authorization, restart = false }
    "webhook.conf"       = { content_wo = var.webhook }
  }
}
`

// webhookKubeconfig returns the kubeconfig of a webhook that does not answer.
func webhookKubeconfig(token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: policy, cluster: {server: "https://127.0.0.1:9/authorize"}}]
users: [{name: apiserver, user: {token: %s}}]
contexts: [{name: policy, context: {cluster: policy, user: apiserver}}]
current-context: policy
`, token)
}

// TestFiles places files that flags name on a running control plane, changes them in place,
// repairs them, rolls back one that keeps the API server from starting, and removes them. The
// secret one is never in the state, in a plan or in a diagnostic. Then it configures schedulers by a
// file, and API servers by variables and an egress selector.
func TestFiles(t *testing.T) {
	s := &filesStory{names: []string{"cp1", "cp2"}}
	s.w = newStory(t, s.names...)
	bare := fingerprints(t, s.names...)
	extend(t, s.w, filesVariables)
	s.set(t, "privileged", "secret-one", "10s")
	apply(t, s.w)
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"refused", s.refused},
		{"placed", s.placed},
		{"changed", s.changed},
		{"reloaded", s.reloaded},
		{"edited by hand", s.edited},
		{"rolled back", s.rolledBack},
		{"removed", s.removed},
		{"scheduler configured", s.schedulerConfigured},
		{"environment", s.environmentSet},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, s.w, "-destroy")
	expectBare(t, bare, s.names...)
}

func (s *filesStory) set(t *testing.T, enforce, token, cache string) {
	t.Helper()
	variables := map[string]any{"enforce": enforce, "webhook": webhookKubeconfig(token), "cache": cache}
	if err := s.w.WriteJSON("files.auto.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
}

// restarted returns the API servers, and what restarts beside them.
func (s *filesStory) restarted() (must []string) {
	for _, name := range s.names {
		must = append(must, name+" kube-apiserver")
	}
	return must
}

// onAll expects the output of a script on each machine.
func (s *filesStory) onAll(t *testing.T, script, want string) {
	t.Helper()
	for _, name := range s.names {
		if have := strings.TrimSpace(onMachine(t, shared.lab.Machine(name), script)); have != want {
			t.Errorf("%s: %s: %q, want %q", name, script, have, want)
		}
	}
}

// noSecret expects no token of the webhook in the state.
func (s *filesStory) noSecret(t *testing.T, plans ...string) {
	t.Helper()
	state, err := os.ReadFile(filepath.Join(s.w.Dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(plans, string(state)) {
		if strings.Contains(text, "secret-") {
			t.Error("the token of the webhook is in the state, a plan or a diagnostic")
		}
	}
}

func (s *filesStory) refused(t *testing.T) {
	before := processes(t, s.names...)
	override(t, s.w, strings.Replace(filesOverride, `"admission.yaml" `, `"admissions.yaml" `, 1))
	_, _, err := s.w.Plan(t.Context())
	if err == nil {
		t.Fatal("a flag that names a missing file is planned")
	}
	expectContains(t, unfolded(err.Error()), `flag "admission-control-config-file" of kube-apiserver names`,
		filesDir+`admission.yaml, and there is no file "admission.yaml"`)
	expectRestarted(t, before, nil)
}

func (s *filesStory) placed(t *testing.T) {
	before := processes(t, s.names...)
	override(t, s.w, filesOverride)
	text, _, err := s.w.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.noSecret(t, text)
	apply(t, s.w)
	expectRestarted(t, before, s.restarted())
	s.noSecret(t)
	s.onAll(t, "cd "+filesDir+" && stat -c '%a %U:%G %n' *",
		"644 root:root admission.yaml\n"+
			"600 kube-apiserver:kube-apiserver authorization.yaml\n600 kube-apiserver:kube-apiserver webhook.conf")
	s.onAll(t, "grep -o secret-one "+filesDir+"webhook.conf", "secret-one")
	s.expectPrivileged(t, true)
}

// changed changes the admission configuration and the secret file in one apply.
func (s *filesStory) changed(t *testing.T) {
	before := processes(t, s.names...)
	s.set(t, "baseline", "secret-two", "10s")
	text, changes, err := s.w.Plan(t.Context())
	if err != nil || !changes {
		t.Fatalf("a changed content is not planned: %v", err)
	}
	expectContains(t, unfolded(text), "file_digests", "enforce: baseline")
	s.noSecret(t, text)
	apply(t, s.w)
	expectRestarted(t, before, s.restarted())
	s.onAll(t, "grep -o secret-two "+filesDir+"webhook.conf", "secret-two")
	s.onAll(t, "ls -A /etc/kubernetes | grep before || :", "")
	s.expectPrivileged(t, false)

	before = processes(t, s.names...)
	s.set(t, "baseline", "secret-three", "10s")
	apply(t, s.w)
	expectRestarted(t, before, s.restarted())
	s.noSecret(t)
}

// reloaded changes the file that the API server reads again by itself.
func (s *filesStory) reloaded(t *testing.T) {
	before := processes(t, s.names...)
	s.set(t, "baseline", "secret-three", "20s")
	apply(t, s.w)
	expectRestarted(t, before, nil)
	for _, name := range s.names {
		s.expectReload(t, name)
	}
}

// reloadedOnce matches the metric of an API server that has loaded its authorization
// configuration again.
var reloadedOnce = regexp.MustCompile(
	`apiserver_authorization_config_controller_automatic_reloads_total\{[^}]*status="success"\} [1-9]`)

// expectReload waits until the API server of a machine has loaded its authorization
// configuration again.
func (s *filesStory) expectReload(t *testing.T, name string) {
	t.Helper()
	awaitFor(t, 90*time.Second, name+": the authorization configuration was not loaded again", func() bool {
		code, metrics, err := s.admin.call(t.Context(), servers(name)[0], http.MethodGet, "/metrics", nil, nil)
		return err == nil && code == http.StatusOK && reloadedOnce.MatchString(metrics)
	})
}

// edited repairs files that were edited on a machine. No process has read them, so nothing is
// restarted.
func (s *filesStory) edited(t *testing.T) {
	before := processes(t, s.names...)
	m := shared.lab.Machine("cp1")
	onMachine(t, m, "cd "+filesDir+"; echo '# by hand' >> webhook.conf; chmod 0644 authorization.yaml; "+
		"rm admission.yaml; echo theirs > theirs")
	text, changes, err := s.w.Plan(t.Context())
	if err != nil || !changes {
		t.Fatalf("edited files are no drift: %v", err)
	}
	expectContains(t, unfolded(text), filesDir+"webhook.conf has different content",
		filesDir+"authorization.yaml has mode 0644, wanted 0600", filesDir+"admission.yaml is missing")
	s.noSecret(t, text)
	apply(t, s.w)
	expectRestarted(t, before, nil)
	if theirs := onMachine(t, m, "cat "+filesDir+"theirs; rm "+filesDir+"theirs"); strings.TrimSpace(theirs) != "theirs" {
		t.Errorf("a file of somebody else was changed: %q", theirs)
	}
}

// rolledBack: a configuration that the API server cannot use, and a new secret, are taken back.
func (s *filesStory) rolledBack(t *testing.T) {
	contents := "cd " + filesDir + " && sha256sum * && stat -c '%a %U:%G' *"
	was := onMachine(t, shared.lab.Machine("cp1"), contents)
	s.set(t, "no-such-level", "secret-four", "20s")
	_, err := s.w.Apply(t.Context(), t.Output())
	if err == nil {
		t.Fatal("an admission configuration that cannot be used is applied")
	}
	expectContains(t, unfolded(err.Error()), "rolled back")
	s.noSecret(t, err.Error())
	s.onAll(t, contents, strings.TrimSpace(was))
	s.onAll(t, "ls -A /etc/kubernetes | grep before || :", "")
	s.expectPrivileged(t, false)
	s.set(t, "baseline", "secret-three", "20s")
	expectEmptyPlan(t, s.w)
}

func (s *filesStory) removed(t *testing.T) {
	before := processes(t, s.names...)
	override(t, s.w, "")
	apply(t, s.w)
	expectRestarted(t, before, s.restarted())
	s.onAll(t, "ls -d /etc/kubernetes/files /etc/kubernetes/replica.files.json 2>/dev/null || :", "")
	s.expectPrivileged(t, true)
}

// podsDryRun is where a pod is admitted and not stored.
const podsDryRun = "/api/v1/namespaces/default/pods?dryRun=All"

// expectPrivileged expects that every API server accepts, or refuses, a privileged pod.
func (s *filesStory) expectPrivileged(t *testing.T, accepted bool) {
	t.Helper()
	privileged := true
	container := core.Container{Name: "a", Image: "a", SecurityContext: &core.SecurityContext{Privileged: &privileged}}
	pod := core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "privileged"},
		Spec:       core.PodSpec{Containers: []core.Container{container}},
	}
	for _, name := range s.names {
		var code int
		var text string
		await(t, name+": no answer about a privileged pod", func() bool { // until the namespace has its service account
			var err error
			code, text, err = s.admin.call(t.Context(), servers(name)[0], http.MethodPost, podsDryRun, pod, nil)
			return err == nil && (code/100 == 2 || strings.Contains(text, "violates PodSecurity"))
		})
		if accepted != (code/100 == 2) || !accepted && !strings.Contains(text, `violates PodSecurity \"baseline`) {
			t.Errorf("%s: a privileged pod: HTTP %d: %s", name, code, text)
		}
	}
}
