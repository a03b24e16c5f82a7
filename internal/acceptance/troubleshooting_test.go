package acceptance

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// smallQuota is a quota that a test can fill.
const smallQuota = `
resource "kube_etcd_member" "this" {
  extra_args = { quota-backend-bytes = "25165824" }
}
`

// fewRequests lets an API server handle so few requests at once that a test can send too many.
const fewRequests = `
resource "kube_control_plane_replica" "this" {
  extra_args = { apiserver = { max-requests-inflight = "3", max-mutating-requests-inflight = "2" } }
}
`

const symptomsConfig = `
data "kube_control_plane" "this" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
}

resource "kube_kubeconfig" "short" {
  pki      = kube_pki_bundle.this.bundle
  server   = kube_control_plane_endpoint.this.url
  user     = "short"
  validity = "48h"
}

output "short" {
  value     = kube_kubeconfig.short.content
  sensitive = true
}
`

// The blocks of commands in the part of the guide about symptoms, in their order.
const (
	showIssues = iota
	showLatency
	showKeys
	showAPIServer
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
	admin string      // kubectl's argument
	short credentials // of a user whose certificate ends in two days
	names []string
	here  *strings.Replacer
}

// TestTroubleshooting makes each symptom of the guide on three machines. The commands of the guide
// find the cause, and an apply repairs what is drift.
func TestTroubleshooting(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	machines(t)
	onImage(t, "cp1") // whose disk can be slow
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	override(t, w, smallQuota+fewRequests)
	extend(t, w, symptomsConfig)
	apply(t, w)
	awaitRotation(t, names...)
	s := symptoms{
		w: w, user: newUser(t, w), names: names, short: credentialsOf(t, outputOf(t, w, "short")),
		admin: "--kubeconfig=" + writeFile(t, w, "admin.conf", outputOf(t, w, "kubeconfig")),
		here: strings.NewReplacer("10.0.0.100", vip, "10.0.0.11", address("cp1"), "10.0.0.12", address("cp2"),
			"/3.6.16/", "/"+release(t, "etcd")+"/"),
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the API is slow for too many requests", s.manyRequests},
		{"the API is slow for a webhook", s.slowWebhook},
		{"the API is slow for etcd", s.slowEtcd},
		{"the API answers with errors for a full database", s.fullDatabase},
		{"the API answers with errors for a broken unit", s.brokenAPIServer},
		{"etcd has no leader", s.noLeader},
		{"two members lose each other", s.lostConnection},
		{"the leader changes", s.leaderChanges},
		{"Pods stay pending", s.pendingPods},
		{"nodes are not ready", s.nodesNotReady},
		{"all nodes are not ready", s.allNodesNotReady},
		{"certificates expire", s.expiringCertificate},
		{"a certificate is not served", s.unservedCertificate},
		{"a user's certificate expires", s.expiringClient},
		{"the virtual IP does not answer", s.lostVirtualIP},
		{"the virtual IP is on two machines", s.twoVirtualIPs},
		{"the virtual IP's holder hangs", s.hungBalancer},
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
