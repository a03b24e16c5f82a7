package acceptance

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// smallQuota is a quota that a test can fill.
const smallQuota = `
resource "kube_etcd_member" "this" {
  extra_args = { quota-backend-bytes = "25165824" }
}
`

const symptomsConfig = `
data "kube_control_plane" "this" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
}
`

// The blocks of commands in the part of the guide about symptoms, in their order.
const (
	showIssues = iota
	showLatency
	showKeys
	startMember
	showLeaders
	showPods
	showNodes
	showCertificate
	showVirtualIP
	showDisk
)

// symptoms is a control plane, and what its operator does with the guide.
type symptoms struct {
	w     *workspace.Workspace
	user  user
	admin string // kubectl's argument
	names []string
	here  *strings.Replacer
}

// TestTroubleshooting makes each symptom of the guide on three machines. The commands of the guide
// find the cause, and an apply repairs what is drift.
func TestTroubleshooting(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	override(t, w, smallQuota)
	extend(t, w, symptomsConfig)
	apply(t, w)
	awaitRotation(t, names...)
	s := symptoms{
		w: w, user: newUser(t, w), names: names,
		admin: "--kubeconfig=" + writeFile(t, w, "admin.conf", outputOf(t, w, "kubeconfig")),
		here: strings.NewReplacer("10.0.0.100", vip, "10.0.0.11", address("cp1"), "10.0.0.12", address("cp2"),
			"/3.6.16/", "/"+release(t, "etcd")+"/"),
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the API is slow", s.slowAPI},
		{"the API answers with errors", s.failingAPI},
		{"etcd has no leader", s.noLeader},
		{"two members lose each other", s.lostConnection},
		{"the leader changes", s.leaderChanges},
		{"Pods stay pending", s.pendingPods},
		{"nodes are not ready", s.nodesNotReady},
		{"certificates expire", s.expiringCertificate},
		{"the virtual IP does not answer", s.lostVirtualIP},
		{"the virtual IP is on two machines", s.twoVirtualIPs},
		{"the disk is slow", s.slowDisk},
	} {
		if !t.Run(c.name, c.run) {
			t.FailNow() // the next symptom would not be the only one
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// typed runs a block of the guide where Terraform runs.
func (s symptoms) typed(t *testing.T, block int) string {
	t.Helper()
	return s.user.typeCommands(t, s.here.Replace(documentedScript(t, "troubleshooting", block)))
}

// on runs a block of the guide on a machine.
func (s symptoms) on(t *testing.T, name string, block int) string {
	t.Helper()
	out := onMachine(t, shared.lab.Machine(name), s.here.Replace(documentedScript(t, "troubleshooting", block)))
	t.Logf("%s: %s", name, out)
	return out
}

// issues returns what kube_control_plane says.
func (s symptoms) issues(t *testing.T) string {
	t.Helper()
	return unfolded(s.typed(t, showIssues))
}

// repaired applies, and expects no issues.
func (s symptoms) repaired(t *testing.T) {
	t.Helper()
	apply(t, s.w)
	awaitRotation(t, s.names...)
	await(t, "issues are left", func() bool { return len(observed(t, s.w).Issues) == 0 })
}

// slowAPI: a webhook that nobody answers.
func (s symptoms) slowAPI(t *testing.T) {
	silent, err := net.Listen("tcp", net.JoinHostPort(operatorAddress(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hook := writeFile(t, s.w, "webhook.yaml", `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slow}
webhooks:
  - name: slow.example.com
    clientConfig: {url: "https://`+silent.Addr().String()+`/"}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    failurePolicy: Ignore
    timeoutSeconds: 2
    sideEffects: None
    admissionReviewVersions: [v1]
`)
	kubectl(t, s.w, s.admin, "create", "--filename="+hook)
	server := "--server=https://" + address("cp1") + ":6443"
	await(t, "the webhook is not called", func() bool {
		begin := time.Now()
		kubectl(t, s.w, s.admin, server, "create", "configmap", "slow-"+strings.ToLower(time.Now().Format("150405.000")),
			"--namespace=default")
		return time.Since(begin) >= 2*time.Second
	})
	first, _, _ := strings.Cut(s.typed(t, showLatency), "\n")
	expectContains(t, first, "apiserver_admission_webhook_admission_duration_seconds", `name="slow.example.com"`)
	kubectl(t, s.w, s.admin, "delete", "validatingwebhookconfiguration", "slow")
}

// failingAPI: a database that has reached its quota.
func (s symptoms) failingAPI(t *testing.T) {
	cp1 := shared.lab.Machine("cp1")
	onMachine(t, cp1, `cd /etc/kubernetes/pki/etcd
value=$(head -c 200000 /dev/urandom | base64 -w 0)
for n in $(seq 150); do
  printf '{"key":"%s","value":"%s"}' "$(printf /registry/example.com/$n | base64 -w 0)" "$value" |
    curl -s --fail --cacert ca.crt --cert healthcheck-client.crt --key healthcheck-client.key --data @- \
      https://127.0.0.1:2379/v3/kv/put >/dev/null || exit 0
done
echo 'the quota was not reached'; exit 1`)
	out, err := tryKubectl(t, s.w, s.admin, "create", "configmap", "refused", "--namespace=default")
	if err == nil || !strings.Contains(out, "database space exceeded") {
		t.Errorf("a write with a full database: %v\n%s", err, out)
	}
	expectContains(t, s.issues(t), "has alarm NOSPACE")
	first, _, _ := strings.Cut(strings.TrimSpace(s.on(t, "cp1", showKeys)), "\n")
	expectContains(t, first, "registry/example.com")
	onMachine(t, cp1, ctl+"etcdctl del --prefix /registry/example.com/")
	s.repaired(t)
	kubectl(t, s.w, s.admin, "create", "configmap", "accepted", "--namespace=default")
}
