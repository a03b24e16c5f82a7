package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// alertsFactor makes an alert that waits for four hours by default wait for five minutes.
const alertsFactor = 0.02

// alertsConfig has limits that a test reaches, and snapshots whose upload a file stops. It has the versions of
// Kubernetes and of etcd, and the stage of a rotation.
const alertsConfig = `
module "control_plane" {
  kubernetes = {
    version    = %q
    metrics    = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
    extra_args = { apiserver = { max-requests-inflight = "40", max-mutating-requests-inflight = "20" } }
  }
  etcd = {
    version = %q
    extra_args = {
      metrics = "extensive", quota-backend-bytes = "268435456"
    }
    snapshots = { schedule = "*-*-* *:*:00", kept = 2, upload = "test ! -e /srv/refuse" }
    metrics   = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
  }
  pki = { deletion_protection = false, rotation = { front_proxy = %d } }
}
`

// alertsClients are an administrator, and a user whose certificate ends soon.
const alertsClients = `
resource "kube_kubeconfig" "short" {
  pki      = module.control_plane.pki
  server   = module.control_plane.url
  user     = "short"
  groups   = ["system:masters"]
  validity = "12h"
}

output "kubeconfig" {
  value     = module.control_plane.kubeconfig
  sensitive = true
}

output "short" {
  value     = kube_kubeconfig.short.content
  sensitive = true
}
`

// failingDrill is a restore drill that cannot fetch its snapshot.
const failingDrill = `
resource "kube_etcd_restore_drill" "this" {
  pki      = module.control_plane.pki
  peers    = var.machines
  member   = "cp2"
  fetch    = "exit 1"
  triggers = { run = "1" }
}
`

// Parts of scripts that use etcdctl: the endpoints of all members, and a compaction of all that is past.
const (
	everywhere = `all=$(etcdctl member list --write-out=fields | sed -n 's/^"ClientURL" : "\(.*\)"$/\1/p' | paste -s -d ,)
`
	compact = `revision=$(etcdctl get /none --write-out=json | sed 's/.*"revision":\([0-9]*\).*/\1/')
etcdctl compaction --physical "$revision" >/dev/null
`
)

// alarms is a control plane on which alerts are made true.
type alarms struct {
	w     *workspace.Workspace
	p     prometheus
	admin credentials
	names []string
}

// alarmed returns a control plane in which alerts wait for a short time, and that Prometheus scrapes. install names
// packages that machines get beside node_exporter.
func alarmed(t *testing.T, kubernetes, etcd string, install ...string) (a alarms, bare map[string][]string) {
	t.Helper()
	names := []string{"cp1", "cp2", "cp3"}
	w, bare := monitored(t, names, alertsFactor, install...)
	override(t, w, fmt.Sprintf(alertsConfig, release(t, kubernetes), release(t, etcd), 0))
	extend(t, w, alertsClients+planRules)
	apply(t, w)
	a = alarms{w: w, p: scraping(t, w), names: names, admin: credentialsOf(t, outputOf(t, w, "kubeconfig"))}
	a.p.expectTargets(t, 6*len(names))
	return a, bare
}

// TestAlerts makes alerts true that TestMonitoring does not, each by what it is about: plans, drills, an upgrade that
// stands still, leaders, Pods, clients, snapshots and space. All end after the repair.
func TestAlerts(t *testing.T) {
	a, bare := alarmed(t, "kubernetes-1.35", "etcd-3.5")
	a.plans(t)
	a.drill(t)
	half := a.halfUpgraded(t)
	a.leaders(t)
	a.clients(t)
	a.webhooks(t)
	a.pods(t)
	a.snapshots(t)
	a.space(t)
	a.p.expectAlerts(t, half, 10*time.Minute, "KubeMixedVersions", "KubeComponentVersionsMixed")
	apply(t, a.w)
	a.p.expectEnd(t, "EtcdMixedVersions", "KubeMixedVersions", "KubeComponentVersionsMixed", "EtcdSnapshotNotSent",
		"EtcdDatabaseQuotaLowSpace", "EtcdDatabaseHighFragmentationRatio", "KubePodsUnschedulable", "KubePodsPending",
		"KubeWorkQueueDeep", "KubeWorkQueueSlow", "KubeAggregatedAPIDown", "KubeClientCertificateExpiresSoon",
		"KubeNodesNotReady", "KubeAllNodesNotReady", "KubeAPIWebhookSlow", "KubeAPIWebhookFails", "KubeDriftStays",
		"KubePlanFails")
	apply(t, a.w, "-destroy")
	expectBare(t, bare, a.names...)
}

// TestAlertsOfMembers makes alerts true by a member whose disk is slow, whose process stands still, and that stays a
// learner, and by a rotation that stands still.
func TestAlertsOfMembers(t *testing.T) {
	machines(t)
	onImage(t, "cp3") // whose disk can be slow
	a, bare := alarmed(t, "kubernetes", "etcd")
	load := watchPressure(t)
	half := a.halfRotated(t)
	a.slowMember(t)
	a.p.expectAlerts(t, half, 10*time.Minute, "KubeRotationIncomplete", "KubeRotationStandsStill")
	apply(t, a.w)
	a.learner(t)
	for _, stage := range []int{2, 3} { // to the end of the rotation
		a.configure(t, stage)
		apply(t, a.w)
	}
	a.p.expectEnd(t, "KubeRotationIncomplete", "KubeRotationStandsStill", "EtcdLearnerStays", "EtcdLearnerSince")
	a.p.expectSlownessEnds(t, load, append(slowAlerts(), "EtcdMemberCommunicationSlow")...)
	apply(t, a.w, "-destroy")
	expectBare(t, bare, a.names...)
}

// TestAlertsOfClients makes alerts true by what clients meet: balancers, the virtual IP, API servers with too many
// requests and without etcd, and a clock that is wrong.
func TestAlertsOfClients(t *testing.T) {
	a, bare := alarmed(t, "kubernetes", "etcd", "chrony")
	a.clock(t)
	a.sessions(t)
	a.balancers(t)
	a.overload(t)
	a.noAddress(t)
	apply(t, a.w)
	a.p.expectEnd(t, "KubeClockOffset", "HAProxySessionsNearLimit", "HAProxyServerDrained", "HAProxyServersDiffer",
		"HAProxyDown", "KubeVirtualIPOnNoMachine", "KubeAPIRequestsInFlight", "KubeAPITerminatedRequests",
		"EtcdHighNumberOfFailedProposals", "EtcdVeryHighNumberOfFailedGRPCRequests")
	apply(t, a.w, "-destroy")
	expectBare(t, bare, a.names...)
}

// on runs a script on a machine, with etcdctl as a function.
func (a alarms) on(t *testing.T, name, script string) string {
	t.Helper()
	return onMachine(t, shared.lab.Machine(name), ctl+script)
}

// onAll runs a script on each machine.
func (a alarms) onAll(t *testing.T, script string) {
	t.Helper()
	for _, name := range a.names {
		a.on(t, name, script)
	}
}
