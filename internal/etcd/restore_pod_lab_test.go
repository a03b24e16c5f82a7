package etcd

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

// podsLose makes members that are static pods lose their data, as a broken disk does.
func (r *rig) podsLose(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.sh(name, "systemctl stop kubelet; kill -9 $(pgrep -x etcd); rm -rf /var/lib/etcd/member; systemctl start kubelet")
	}
}

// podRestored: static pods are restored from a survivor and from a snapshot, like units. A restore that is refused when
// the survivor was already stopped starts it again.
func (r *rig) podRestored() {
	r.ctl("cp1", "put /registry/masterleases/10.9.9.9 stale", "put /registry/pods/a one")
	r.ctl("cp2", "snapshot save /root/good.db", "put /registry/pods/a two")
	before := r.revision("cp1")
	r.podsLose("cp1", "cp2")

	tool := machine.ArtifactDir(newRelease) + "/etcdutl"
	r.sh("cp3", "chmod a-x "+tool)
	was := r.container("cp3")
	r.request("one", machine.Restore{Member: "cp3"})
	r.refusesRestore("etcdutl")
	r.awaitPod("cp3", "runs again after a refusal", r.runs)
	if r.container("cp3") == was {
		r.t.Error("the survivor was not stopped while its data was copied")
	}
	r.sh("cp3", "chmod a+x "+tool)
	r.all("restore from a survivor", r.update)
	r.wantData("two", before)
	r.runAsPods()

	before = r.revision("cp1")
	r.podsLose(everyone...)
	r.request("two", machine.Restore{Snapshot: "/root/good.db"})
	r.all("restore from a snapshot", r.update)
	r.wantData("one", before)
	r.runAsPods()
	containers := map[string]string{}
	for _, name := range everyone {
		containers[name] = r.container(name)
	}
	r.all("the same again", r.update)
	for _, name := range everyone {
		if r.container(name) != containers[name] {
			r.t.Errorf("%s was restarted by the same configuration", name)
		}
	}
	r.edit(func(s *Spec) { s.Restore = nil }, everyone...)
	r.all("read", r.same)
}

// runAsPods checks that static pods, and no units, run the members.
func (r *rig) runAsPods() {
	r.t.Helper()
	for _, name := range everyone {
		if got := r.sh(name, runtimeShown); got != "root\nroot\netcd.yaml\nnone\n" {
			r.t.Errorf("%s:\n%s", name, got)
		}
	}
}

// runs checks that the member of a machine has a process.
func (r *rig) runs(ctx context.Context, s Spec) error {
	_, err := r.lab.Machine(s.Name).Run(ctx, "pgrep -x etcd")
	return err
}
