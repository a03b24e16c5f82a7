package acceptance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// drillFile is a drill as an action, and as a resource that fetches the snapshot with %[1]s.
const drillFile = `
action "kube_etcd_snapshot" "now" {
  config {
    pki    = kube_pki_bundle.this.bundle
    peers  = var.machines
    member = "cp2"
  }
}

action "kube_etcd_restore_drill" "now" {
  config {
    pki   = kube_pki_bundle.this.bundle
    peers = var.machines
  }
}
`

const drillResourceFile = `
resource "kube_etcd_restore_drill" "this" {
  pki      = kube_pki_bundle.this.bundle
  peers    = var.machines
  member   = "cp2"
  fetch    = "name=%[1]s; cp \"/root/$${name}.db\" \"$SNAPSHOT\""
  every    = "720h"
  triggers = { run = %[2]q }

  depends_on = [kube_control_plane_replica.this]
}

output "drill" {
  value = jsonencode({
    ran_on = kube_etcd_restore_drill.this.ran_on, rto = kube_etcd_restore_drill.this.rto_seconds > 0,
    rpo = kube_etcd_restore_drill.this.rpo_seconds >= 0, compared = kube_etcd_restore_drill.this.compared,
    tokens = kube_etcd_restore_drill.this.tokens_verified, source = kube_etcd_restore_drill.this.source,
    namespaces = kube_etcd_restore_drill.this.objects["namespaces"] >= 4,
  })
}
`

const drillObserved = `
data "kube_control_plane" "drilled" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
}

output "drilled" {
  value = jsonencode(data.kube_control_plane.drilled.etcd_cluster.restore_drill)
}

data "kube_production_readiness" "drilled" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
}

output "review" {
  value = jsonencode([
    for item in data.kube_production_readiness.drilled.items :
    "${item.status}: ${item.evidence}" if item.id == "snapshots"
  ])
}

output "issues" {
  value = jsonencode(data.kube_control_plane.drilled.issues)
}
`

// TestRestoreDrill drills by the action (Terraform 1.14) and by its twin, while clients send requests of which
// none fails. A drill runs once for each trigger; one that fails is an error, and known to the data source.
func TestRestoreDrill(t *testing.T) {
	withActions(t)
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	write(t, filepath.Join(w.Dir, "drill.tf"), drillFile)
	before := processes(t, names...)
	l := startLoad(t, outputOf(t, w, "kubeconfig"), names...)
	invoke(t, w, "kube_etcd_snapshot.now")
	expectContains(t, invoke(t, w, "kube_etcd_restore_drill.now"), "restore drill on cp2", "(RTO)", "(RPO)")
	expectDrillGone(t, names)

	onMachine(t, shared.lab.Machine("cp2"), `cp /var/lib/etcd-archive/requested/*.db /root/good.db
cp /root/good.db /root/flipped.db
printf x | dd of=/root/flipped.db bs=1 seek=20000 conv=notrunc 2>/dev/null`)
	request := func(file, trigger string) {
		write(t, filepath.Join(w.Dir, "drill_resource.tf"), fmt.Sprintf(drillResourceFile, file, trigger))
	}
	request("good", "1")
	apply(t, w) // and its next plan is empty
	const good = `"compared":true,"namespaces":true,"ran_on":"cp2","rpo":true,"rto":true,"source":"fetch","tokens":true`
	expectContains(t, outputOf(t, w, "drill"), good)
	undisturbed(t, l)
	expectRestarted(t, before, nil)

	request("good", "2")
	expectContains(t, plan(t, w), "0 to add, 1 to change, 0 to destroy", "rto_seconds")
	apply(t, w)

	request("flipped", "3")
	if _, err := w.Run(t.Context(), "apply", "-auto-approve", "-no-color"); err == nil ||
		!strings.Contains(err.Error(), "is corrupt") {
		t.Errorf("a damaged snapshot: %v", err)
	}
	expectDrillGone(t, names)
	write(t, filepath.Join(w.Dir, "drilled.tf"), drillObserved)
	request("good", "2") // as before the failure: nothing to do, and it is still known
	applyOnly(t, w, "its outputs change with what it has drilled")
	expectContains(t, outputOf(t, w, "drilled"), `"succeeded":false`, "is corrupt")
	expectContains(t, outputOf(t, w, "issues"), "the last restore drill")
	expectContains(t, outputOf(t, w, "review"), "fail: ", "the restore drill of ", "failed: ")
	request("good", "4")
	applyOnly(t, w, "the data source reads what the next refresh shows")
	applyOnly(t, w, "the data source reads what the next refresh shows")
	expectContains(t, outputOf(t, w, "drilled"), `"succeeded":true`)
	expectContains(t, outputOf(t, w, "review"), "succeeded in ")

	apply(t, w, "-destroy")
	onMachine(t, shared.lab.Machine("cp2"), "rm /root/good.db /root/flipped.db")
	expectBare(t, bare, names...)
}

// expectDrillGone expects that nothing of a drill is on the machines but its record.
func expectDrillGone(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		left := onMachine(t, shared.lab.Machine(name), `for left in /run/kube-restore-drill /var/lib/etcd-archive/drill; do
  [ ! -e $left ] || echo $left
done
systemctl list-units --all --plain --no-legend 'kube-restore-drill*' 'kubedrill*'`)
		if strings.TrimSpace(left) != "" {
			t.Errorf("%s has of a drill:\n%s", name, left)
		}
	}
}
