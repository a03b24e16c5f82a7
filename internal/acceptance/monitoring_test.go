package acceptance

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// targetsUp is how long it may take from the begin of the first apply until Prometheus scrapes everything.
const targetsUp = 5 * time.Minute

// waitFactor is how much shorter than by default alerts wait in this test.
const waitFactor = 0.2

// loadAlerts say that machines are slow, which those of a lab on a busy computer are. They are not counted as
// false alarms here; their rules have unit tests.
var loadAlerts = []string{
	"EtcdGRPCRequestsSlow", "EtcdHighCommitDurations", "EtcdHighFsyncDurations", "EtcdVeryHighFsyncDurations",
	"EtcdMemberCommunicationSlow", "EtcdHighNumberOfLeaderChanges", "KubeAPIEtcdSlow", "KubeAPILatencyHigh",
	"KubeAPIErrorBudgetBurn", "KubeWorkQueueSlow",
}

// changedScheduler restarts one scheduler after the other.
const changedScheduler = `
module "control_plane" {
  kubernetes = {
    version    = "1.36.3"
    metrics    = { address = "0.0.0.0", textfile_directory = var.textfile_directory }
    extra_args = { scheduler = { v = "1" } }
  }
}
`

// TestMonitoring follows the guide: Debian's Prometheus scrapes a control plane with the files that
// the example makes. No alert fires while it is healthy and an apply changes it. What is broken on
// purpose fires its alert, and an apply ends it.
func TestMonitoring(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w, bare := monitored(t, names, waitFactor)
	applied := time.Now()
	applyOnly(t, w, "the time until targets are up is measured")
	begun := time.Now()
	newUser(t, w).typeCommands(t, documentedScript(t, "monitoring", 0))
	p := startPrometheus(t, shared.lab.Machine("cp4"), filepath.Join(w.Dir, "prometheus"))
	targets := 6 * len(names)
	p.expectTargets(t, targets)
	took := time.Since(applied).Round(time.Second)
	t.Logf("from the apply until %d targets are up: %s, the apply %s of it", targets, took,
		begun.Sub(applied).Round(time.Second))
	if took > targetsUp {
		t.Errorf("the targets are up after %s, and not within %s", took, targetsUp)
	}
	expectEmptyPlan(t, w)

	// Healthy, while a snapshot is saved and an apply restarts schedulers.
	for _, name := range names { // that of the leader saves
		onMachine(t, shared.lab.Machine(name), "systemctl start etcd-snapshot")
	}
	override(t, w, changedScheduler)
	apply(t, w)
	p.expectSilence(t, 2*time.Minute)
	expectShown(t, p.show(t, filepath.Join(w.Dir, "grafana"), begun))

	m := breakAll(t, w)
	p.expectAlerts(t, m.since, 8*time.Minute, m.alerts...)
	m.repair(t)
	apply(t, w)
	p.expectTargets(t, targets)
	onMachine(t, shared.lab.Machine("cp3"), "systemctl start etcd-snapshot") // the next one on its schedule
	p.expectEnd(t, m.alerts...)

	// Two of three members: the quorum is lost.
	stopped := time.Now()
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl stop etcd")
	}
	lost := []string{"EtcdNoLeader cp1", "EtcdInsufficientMembers ", "HAProxyNoServers cp1"}
	p.expectAlerts(t, stopped, 5*time.Minute, lost...)
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl start etcd")
	}
	p.expectEnd(t, lost...)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// monitored returns the example for machines with node_exporter and other packages, and what is on them before it is
// applied.
func monitored(
	t *testing.T, names []string, waitFactor float64, packages ...string,
) (*workspace.Workspace, map[string][]string) {
	t.Helper()
	w := storyIn(t, append(names, "cp4"), checkout(t), "examples/monitoring")
	for _, name := range names {
		installExporter(t, shared.lab.Machine(name), packages...)
	}
	bare := fingerprints(t, names...)
	variables := map[string]any{"machines": addresses(names), "wait_factor": waitFactor}
	if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the machines with exporters are made anew
		if t.Failed() {
			logWarnings(t, shared.lab)
		}
	})
	return w, bare
}

// broken is what was made wrong on purpose.
type broken struct {
	since  time.Time
	alerts []string
	vip    string
}

// breakAll makes many alerts true at once. What an apply does not repair, repair does.
func breakAll(t *testing.T, w *workspace.Workspace) broken {
	t.Helper()
	b := broken{since: time.Now(), vip: w.VIP()}
	on := func(name, commands string, alerts ...string) {
		onMachine(t, shared.lab.Machine(name), commands)
		b.alerts = append(b.alerts, alerts...)
	}
	on("cp2", "systemctl stop kube-scheduler kube-controller-manager", "KubeControllerManagerDown cp2",
		"KubeSchedulerDown cp2")
	// A server that is down, a member, and a snapshot that its machine cannot save.
	on("cp3", "systemctl stop kube-apiserver etcd; systemctl start etcd-snapshot || true", "EtcdMemberDown cp3",
		"KubeAPIServerDown cp3", "HAProxyServerDown cp1", "EtcdSnapshotFailed cp3")
	// The certificate of the API server is renewed without its key, so it goes on with the old one.
	const request = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -keyout /dev/null 2>/dev/null "
	on("cp1", "cd /etc/kubernetes/pki && "+request+"-days 900 -out new && cat new >apiserver.crt && rm new",
		"KubeCertificateNotServed cp1")
	on("cp2", "cd /etc/kubernetes/pki && "+request+"-days 1 -out new && cat new >apiserver-kubelet-client.crt && rm new",
		"KubeCertificateExpires cp2", "KubeCertificateExpiresSoon cp2")
	on("cp2", "systemctl stop etcd-facts.timer; rm /var/lib/prometheus/node-exporter/kube_etcd_member.prom",
		"KubeFactsMissing cp2")
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		on(name, "find /etc/systemd/system/etcd-snapshot.timer /var/lib/etcd-archive -name '*.db' -o -name '*.timer' | "+
			"xargs touch -d '5 hours ago'")
		if !strings.Contains(onMachine(t, shared.lab.Machine(name), "ip -o address show"), " "+b.vip+"/") {
			on(name, "ip address add "+b.vip+"/32 dev lo")
		}
	}
	b.alerts = append(b.alerts, "EtcdSnapshotTooOld ", "KubeVirtualIPOnTwoMachines ")
	return b
}

// repair undoes what no apply repairs.
func (b broken) repair(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "ip address delete "+b.vip+"/32 dev lo 2>/dev/null || true; "+
			"touch /etc/systemd/system/etcd-snapshot.timer")
	}
}
