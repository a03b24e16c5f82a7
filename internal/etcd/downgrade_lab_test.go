package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestDowngradeOnMachines downgrades members by a minor version while a client writes, changes its
// mind, and interrupts a downgrade at its steps.
func TestDowngradeOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcddown", "10.75.0.0/24", []string{oldRelease, newRelease, nextRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, newRelease)
		// A leader looks at versions every four seconds.
		r.clusters.pace.ConditionTimeout = 15 * time.Second
		r.downgradeRefused()
		r.downgradeRolledBack()
		r.changesItsMind()
		r.downgrade(oldRelease)
		r.upgrade(newRelease)
		r.downgradeCutOff()
		r.all("destroy", r.delete)
		// Not by an upgrade: 3.7 panics at requests of the v2 store that 3.5 has left in the log.
		r.to(nextRelease)
		r.process() // one run does not create again what it has destroyed
		r.all("create "+nextRelease, r.create)
		r.downgrade(newRelease)
		r.all("destroy", r.delete)
	})
}

// agreed waits until the cluster version is minor, and every member has data of that version. 3.5 does not
// report its.
func (r *rig) agreed(minor string) {
	r.t.Helper()
	var v membership.View
	done, err := poll.Until(r.t.Context(), 200*time.Millisecond, 30*time.Second, func() (bool, error) {
		s, err := r.clusters.Survey(r.t.Context(), r.specs["cp1"].Peers, r.specs["cp1"].Bundle)
		v = r.view()
		for _, m := range v.Members {
			if m.Storage != minor && (m.Storage != "" || minor != "3.5") {
				return false, nil
			}
		}
		return err == nil && s.ClusterVersion == minor && s.Downgrade == "", nil
	})
	if !done || err != nil {
		r.t.Fatalf("the cluster does not work as %s: %v %+v", minor, err, v)
	}
}

// downgrade downgrades all members in parallel, while a client writes. Each of them must also be able
// to start later, from its log.
func (r *rig) downgrade(version string) {
	r.t.Helper()
	from := r.specs["cp1"].Version
	acknowledged := r.changeVersion("downgrade", version)
	minor := membership.MinorReported(version)
	r.agreed(minor)
	for _, name := range everyone {
		at := "https://" + r.specs[name].Host.Address() + ":2380/downgrade/enabled"
		ask := "cd " + layout.PKIDir + " && curl -sS --http1.1 --max-time 5 --cacert ca.crt --cert peer.crt " +
			"--key peer.key " + at
		if got := r.sh(name, ask); strings.TrimSpace(got) != "false" {
			r.t.Errorf("%s: a downgrade is enabled: %q", name, got)
		}
		r.sh(name, "systemctl restart etcd")
		r.calm()
	}
	r.agreed(minor) // and all answer
	r.all("read", r.same)
	r.readBack(acknowledged)
	r.sameData()
	r.restorable(from, version)
	r.process()
}

// downgradeRefused verifies that a downgrade needs every member, and changes nothing before.
func (r *rig) downgradeRefused() {
	r.t.Helper()
	plain := r.clone()
	r.to(oldRelease)
	r.sh("cp2", "systemctl stop etcd")
	r.refused("cp1", "a stopped member", "etcd not downgraded", "cp2")
	r.sh("cp2", "systemctl start etcd")
	r.specs = plain
	r.process()
	r.calm()
	r.agreed("3.6")
}

// downgradeRolledBack gives a follower a flag with a value that etcd does not accept. It returns to the
// newer version, and setting the version back ends the downgrade.
func (r *rig) downgradeRolledBack() {
	r.t.Helper()
	v := r.view()
	first := "cp1"
	if leaderOf(v) == first {
		first = "cp2"
	}
	plain := r.clone()
	r.to(oldRelease)
	r.edit(func(s *Spec) { s.ExtraArgs["auto-compaction-retention"] = "often" }, first)
	_, err := r.clusters.Update(r.t.Context(), r.specs[first])
	r.t.Logf("rolled back:\n%v", err)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Summary != "etcd not downgraded, and rolled back" ||
		!strings.Contains(p.Unchanged, first+" serves with etcd "+newRelease+" again") ||
		!strings.Contains(p.Next, "the snapshot from before the downgrade is /var/lib/etcd-archive/upgrades/") {
		r.t.Fatalf("downgrade that cannot come up: %v", err)
	}
	r.specs = plain
	r.process()
	r.abandoned()
	r.all("given up", r.update)
	r.agreed("3.6")
	r.all("read", r.same)
}

// abandoned verifies that a downgrade that is enabled is drift of members that do not follow it.
func (r *rig) abandoned() {
	r.t.Helper()
	for _, name := range everyone {
		status, err := r.clusters.Read(r.t.Context(), r.specs[name])
		if err != nil ||
			!strings.Contains(strings.Join(status.Drift, "\n"), "a downgrade of the cluster to etcd 3.5 is enabled") {
			r.t.Errorf("%s: drift %q, %v", name, status.Drift, err)
		}
	}
}

// changesItsMind sets the version back after two members were downgraded.
func (r *rig) changesItsMind() {
	r.t.Helper()
	plain := r.clone()
	r.to(oldRelease)
	var followers []string
	for _, name := range everyone {
		if name != leaderOf(r.view()) {
			followers = append(followers, name)
		}
	}
	r.only(followers, "downgrade two", r.update)
	w := r.writer()
	r.specs = plain
	r.process()
	r.all("set version back", r.update)
	acknowledged, failed := w.stop()
	r.t.Logf("%d writes were acknowledged and %d were not", len(acknowledged), failed)
	r.agreed("3.6")
	r.all("read", r.same)
	r.readBack(acknowledged)
	r.sameData()
}

func (r *rig) clone() map[string]Spec {
	plain := map[string]Spec{}
	for name, s := range r.specs {
		plain[name] = s
	}
	return plain
}

// downgradeCutOff kills the process before and after changes of a downgrade of all members. The next apply
// completes it or, every other time, sets the version back.
func (r *rig) downgradeCutOff() {
	r.t.Helper()
	for i, at := range []int{2, 3, 4, 5, 6, 7} {
		c := &cut{at: at, after: i%2 == 0}
		r.to(oldRelease)
		r.process()
		whole := r.clusters.machine
		r.clusters.machine = func(h *host.Host) machine.Machine { return cutting{whole(h), c} }
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		together(r.t, r.specs, func(s Spec) error { _, err := r.clusters.Update(ctx, s); return err }, everyone...)
		cancel()
		r.t.Logf("killed at change %d (%s, after: %v)", at, c.what, c.after)
		if !c.dead {
			r.t.Errorf("there is no change %d", at)
		}
		r.process()
		r.clusters.machine = whole
		if i%3 == 1 {
			r.all("complete it", r.update)
			r.agreed("3.5")
		}
		r.to(newRelease)
		r.process()
		r.all("set version back", r.update)
		r.agreed("3.6")
		r.all("read", r.same)
		for _, name := range everyone {
			r.sh(name, "test ! -e "+layout.RollbackUnitPath)
		}
	}
	r.sameData()
}
