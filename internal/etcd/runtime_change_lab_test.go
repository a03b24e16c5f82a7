package etcd

import (
	"context"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// runtimeShown prints what runs the member of a machine, its user, and who owns its data.
const runtimeShown = `ps -o user= -C etcd
find /var/lib/etcd -printf '%u\n' | sort -u
ls -A ` + staticpod.Directory + `
systemctl is-enabled etcd 2>/dev/null || echo none
`

// manifestShown prints the manifest of a member without the flags of its bootstrap, and the note that has its digest.
const manifestShown = "sed -e '/--initial-cluster/d' -e '/KUBE_STARTED_WITH/,+1d' " + podManifest

// podMoved: a live cluster changes from static pods to units and back, one member at a time, while a client writes.
func (r *rig) podMoved() {
	manifests := map[string]string{}
	for _, name := range everyone {
		manifests[name] = r.sh(name, manifestShown)
	}
	w := r.writer()
	for _, c := range []struct {
		to   machine.Runtime
		want string
	}{
		{machine.Systemd, "etcd\netcd\nenabled\n"},
		{machine.StaticPod, "root\nroot\netcd.yaml\nnone\n"},
	} {
		members := r.view()
		r.edit(func(s *Spec) { s.Runtime = c.to }, everyone...)
		r.all("move to "+string(c.to), r.update)
		r.all("read", r.same)
		for _, name := range everyone {
			if got := r.sh(name, runtimeShown); got != c.want {
				r.t.Errorf("%s by %s:\n%s", name, c.to, got)
			}
			before, _ := members.ByName(name)
			if now, _ := r.view().ByName(name); now.ID != before.ID {
				r.t.Errorf("%s has another ID", name)
			}
		}
	}
	acknowledged, failed := w.stop()
	r.t.Logf("%d writes were acknowledged, %d were not", len(acknowledged), failed)
	r.readBack(acknowledged)
	r.sameData()
	for _, name := range everyone {
		if got := r.sh(name, manifestShown); got != manifests[name] {
			r.t.Errorf("%s has another manifest than before:\n%s", name, got)
		}
	}
}

// podMovedCutOff kills the process before and after each change of a move to a unit, and of the way back. The next
// apply completes it, or goes back if the configuration says so.
func (r *rig) podMovedCutOff() {
	const name = "cp3"
	for at := 1; ; at++ {
		c := &cut{at: (at + 1) / 2, after: at%2 == 0}
		from, to := r.specs[name].Runtime, machine.Systemd
		if from == to {
			to = machine.StaticPod
		}
		r.process()
		whole := r.clusters.machine
		r.clusters.machine = func(h *host.Host) machine.Machine { return cutting{whole(h), c} }
		s := r.specs[name]
		s.Runtime = to
		ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
		_, err := r.clusters.Update(ctx, s)
		cancel()
		r.t.Logf("to %s, killed at change %d (%s, after: %v): %.200v", to, c.at, c.what, c.after, err)
		r.process()
		r.clusters.machine = whole
		if at%3 == 0 { // back
			to = from
		}
		r.edit(func(s *Spec) { s.Runtime = to }, name)
		r.only([]string{name}, "go on to "+string(to), r.update)
		r.all("read", r.same)
		if to == machine.Systemd && strings.Contains(r.sh(name, "ls -A "+staticpod.Directory), "etcd") {
			r.t.Error("a unit runs, and the kubelet has a manifest")
		}
		if !c.dead {
			break
		}
	}
	r.edit(func(s *Spec) { s.Runtime = machine.StaticPod }, name)
	r.only([]string{name}, "move to static_pod", r.update)
	r.all("read", r.same)
}
