package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// alertsFactor makes an alert that waits for four hours by default wait for five minutes.
const alertsFactor = 0.02

// alertsConfig has limits that a test reaches, and snapshots whose upload a file stops. %q is the version of etcd.
const alertsConfig = `
module "control_plane" {
  etcd = {
    version = %q
    extra_args = {
      listen-metrics-urls = "http://0.0.0.0:2381"
      quota-backend-bytes = "268435456"
    }
    snapshots = { schedule = "*-*-* *:*:00", kept = 2, upload = "test ! -e /srv/refuse" }
    metrics   = { textfile_directory = var.textfile_directory }
  }
  kubernetes = {
    version    = "1.36.3"
    metrics    = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
    extra_args = { apiserver = { max-requests-inflight = "40", max-mutating-requests-inflight = "20" } }
  }
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

// TestAlerts makes alerts true that TestMonitoring does not, each by what it is about, and expects that all end
// after the repair.
func TestAlerts(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w, bare := monitored(t, names, alertsFactor)
	override(t, w, fmt.Sprintf(alertsConfig, release(t, "etcd-3.5")))
	extend(t, w, alertsClients)
	apply(t, w)
	a := alarms{w: w, p: scraping(t, w), names: names, admin: credentialsOf(t, outputOf(t, w, "kubeconfig"))}
	a.p.expectTargets(t, 6*len(names))

	a.drill(t)
	a.versions(t)
	a.pods(t)
	a.clients(t)
	a.balancers(t)
	a.snapshots(t)
	a.space(t)
	a.overload(t)
	a.noAddress(t)

	override(t, w, fmt.Sprintf(alertsConfig, release(t, "etcd")))
	apply(t, w)
	a.p.expectEnd(t, "EtcdMixedVersions", "KubeComponentVersionsMixed", "HAProxyServerDrained", "HAProxyServersDiffer",
		"HAProxyDown", "KubeVirtualIPOnNoMachine", "KubeAPIRequestsInFlight", "EtcdSnapshotNotSent")
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// on runs a script on a machine, with etcdctl as a function.
func (a alarms) on(t *testing.T, name, script string) string {
	t.Helper()
	return onMachine(t, shared.lab.Machine(name), ctl+script)
}

// drill runs a restore drill that fails.
func (a alarms) drill(t *testing.T) {
	t.Helper()
	cause := time.Now()
	file := filepath.Join(a.w.Dir, "drill.tf")
	write(t, file, failingDrill)
	expectContains(t, refused(t, a.w), "fetch")
	write(t, file, "")
	a.p.expectAlerts(t, cause, 4*time.Minute, "EtcdRestoreDrillFailed")
}

// versions upgrades one member only, whose machine then has the tools of that version, and moves the leader often.
func (a alarms) versions(t *testing.T) {
	t.Helper()
	override(t, a.w, fmt.Sprintf(alertsConfig, release(t, "etcd")))
	cause := time.Now()
	applyOnly(t, a.w, `-target=module.control_plane.kube_etcd_member.this["cp1"]`)
	a.on(t, "cp1", everywhere+`for i in 1 2 3 4 5; do
  status=$(etcdctl --endpoints="$all" endpoint status --write-out=fields)
  leader=$(printf '%s\n' "$status" | sed -n 's/^"Leader" : //p' | head -n 1)
  to=$(printf '%s\n' "$status" | sed -n 's/^"MemberID" : //p' | grep -vx "$leader" | head -n 1)
  etcdctl --endpoints="$all" move-leader "$(printf %x "$to")"
done`)
	a.p.expectAlerts(t, cause, 8*time.Minute, "EtcdMixedVersions", "EtcdHighNumberOfLeaderChanges",
		"KubeComponentVersionsMixed")
}

// pods creates Pods by 500 ReplicaSets on a cluster without nodes, and an aggregated API without a server.
func (a alarms) pods(t *testing.T) {
	t.Helper()
	cause := time.Now()
	provokeMetrics(t, a.admin)
	labels := map[string]any{"app": "none"}
	set := map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"generateName": "none-"},
		"spec": map[string]any{
			"replicas": 1, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"automountServiceAccountToken": false,
				"containers":                   []any{map[string]any{"name": "none", "image": "none"}},
			}},
		},
	}
	for range 500 {
		a.admin.must(t, endpointURL, http.MethodPost, "/apis/apps/v1/namespaces/default/replicasets", set, nil)
	}
	a.p.expectAlerts(t, cause, 6*time.Minute, "KubePodsUnschedulable", "KubePodsPending", "KubeWorkQueueDeep",
		"KubeWorkQueueSlow", "KubeAggregatedAPIDown")
	a.admin.must(t, endpointURL, http.MethodDelete, "/apis/apiregistration.k8s.io/v1/apiservices/v1.none.example.com",
		nil, nil)
}

// clients requests with a certificate that ends within a day.
func (a alarms) clients(t *testing.T) {
	t.Helper()
	cause := time.Now()
	stop := a.requests(t, credentialsOf(t, outputOf(t, a.w, "short")), 4, http.MethodGet, "/version")
	defer stop()
	a.p.expectAlerts(t, cause, 5*time.Minute, "KubeClientCertificateExpiration", "KubeClientCertificateExpiresSoon")
}

// requests sends requests of so many clients to every API server until stop is called. What is answered is the
// subject of the alerts.
func (a alarms) requests(t *testing.T, of credentials, clients int, method, path string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range clients {
		server := servers(a.names...)[i%len(a.names)]
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var body any
				if method == http.MethodPost {
					body = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
						"name": "load-" + strconv.Itoa(i) + "-" + strconv.Itoa(n),
					}}
				}
				_, _, _ = of.call(ctx, server, method, path, body, nil)
				select {
				case <-ctx.Done():
				case <-time.After(250 * time.Millisecond):
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// balancers takes a server out on one balancer, stops another one, and moves the address four times.
func (a alarms) balancers(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for range 4 {
		from := holder(t, a.names...)
		onMachine(t, from, "systemctl restart kube-endpoint-keepalived")
		for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			if now := holders(t, a.names...); len(now) == 1 && now[0] != from.Name {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the address does not leave %s", from.Name)
			}
		}
		for _, name := range a.names {
			a.on(t, name, "systemctl start kube-endpoint-facts.service")
		}
	}
	has := holder(t, a.names...).Name
	a.on(t, has, "/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'set server kube-apiserver/cp2 state maint'")
	for _, name := range a.names {
		if name != has {
			a.on(t, name, "systemctl stop kube-endpoint-haproxy")
			break
		}
	}
	a.p.expectAlerts(t, cause, 6*time.Minute, "KubeVirtualIPMoves", "HAProxyServerDrained "+has, "HAProxyServersDiffer",
		"HAProxyDown")
	apply(t, a.w, "-target=module.control_plane.kube_control_plane_endpoint.this")
}

// snapshots stops the upload.
func (a alarms) snapshots(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for _, name := range a.names {
		a.on(t, name, "touch /srv/refuse")
	}
	a.p.expectAlerts(t, cause, 8*time.Minute, "EtcdSnapshotNotSent")
	for _, name := range a.names {
		a.on(t, name, "rm /srv/refuse")
	}
}

// space fills the database, and then removes the larger part of it.
func (a alarms) space(t *testing.T) {
	t.Helper()
	cause := time.Now()
	a.on(t, "cp1", `head -c 1000000 /dev/zero | tr '\0' x >/tmp/value
size() { etcdctl endpoint status --write-out=fields | sed -n 's/^"DBSize" : //p'; }
i=100; while [ "$(size)" -lt 257000000 ]; do etcdctl put /filler/$i </tmp/value >/dev/null; i=$((i + 1)); done`)
	a.p.expectAlerts(t, cause, 6*time.Minute, "EtcdDatabaseQuotaLowSpace", "EtcdExcessiveDatabaseGrowth")
	cause = time.Now()
	a.on(t, "cp1", "etcdctl del /filler/210 /filler/999\n"+compact)
	a.p.expectAlerts(t, cause, 6*time.Minute, "EtcdDatabaseHighFragmentationRatio")
	a.on(t, "cp1", everywhere+"etcdctl del --prefix /filler/\n"+compact+
		`etcdctl --endpoints="$all" --command-timeout=60s defrag`)
}

// overload sends requests while there is no quorum.
func (a alarms) overload(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for _, name := range a.names[1:] {
		a.on(t, name, "systemctl stop etcd")
	}
	const path = "/api/v1/namespaces/default/configmaps?timeout=5s"
	reads := a.requests(t, a.admin, 180, http.MethodGet, path)
	writes := a.requests(t, a.admin, 90, http.MethodPost, path)
	a.p.expectAlerts(t, cause, 8*time.Minute, "KubeAPIRequestsInFlight", "KubeAPIErrorsHigh", "KubeAPIErrorsVeryHigh",
		"KubeAPIErrorBudgetBurn", "KubeAPITerminatedRequests", "KubeAPILatencyHigh", "KubeAPIEtcdSlow",
		"EtcdHighNumberOfFailedGRPCRequests", "EtcdVeryHighNumberOfFailedGRPCRequests")
	reads()
	writes()
	for _, name := range a.names[1:] {
		a.on(t, name, "systemctl start etcd")
	}
}

// noAddress stops what holds the address.
func (a alarms) noAddress(t *testing.T) {
	t.Helper()
	cause := time.Now()
	for _, name := range a.names {
		a.on(t, name, "systemctl stop kube-endpoint-keepalived")
	}
	a.p.expectAlerts(t, cause, 4*time.Minute, "KubeVirtualIPOnNoMachine")
}
