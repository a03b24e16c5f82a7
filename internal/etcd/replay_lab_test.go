package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestReplayOnMachines: a cluster of etcd 3.6 that was upgraded from 3.5, with more log than etcd applies in one batch,
// and with a member that was replaced since. Restarts of its members, planned ones and others, leave all of them with
// the members that there are, whoever leads. Otherwise, the second restart leaves a member that counts the one that was
// removed.
func TestReplayOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdreplay", "10.78.0.0/24", []string{oldRelease, newRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, oldRelease)
		r.to(newRelease)
		r.all("upgrade", r.update)
		r.replaceThird()
		for range 2 {
			for _, name := range everyone {
				r.sh(name, "systemctl restart etcd")
				r.awaitHealthy()
			}
		}
		r.expectMembersKnown()
		r.replaceThird()
		r.restartTwice()
		r.expectMembersKnown()
		r.all("destroy", r.delete)
	})
}

// TestReplayUpgradedByHandOnMachines: the same for a cluster that somebody else has upgraded, whose log is still that
// of 3.5.
func TestReplayUpgradedByHandOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdreplayold", "10.77.0.0/24", []string{oldRelease, newRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, oldRelease)
		r.to(newRelease)
		for _, name := range everyone {
			s := r.specs[name]
			if err := machine.Install(t.Context(), r.clusters.machine(s.Host), s.Spec, machine.Observed{}); err != nil {
				t.Fatal(err)
			}
			r.sh(name, "sed -i 's|/etcd/"+oldRelease+"/|/etcd/"+newRelease+"/|' /etc/systemd/system/etcd.service; "+
				"systemctl daemon-reload; systemctl restart etcd")
			r.awaitHealthy()
		}
		r.replaceThird()
		r.restartTwice()
		r.expectMembersKnown()
		r.all("destroy", r.delete)
	})
}

// replaceThird writes to the log, and replaces cp3.
func (r *rig) replaceThird() {
	r.t.Helper()
	r.writeMore()
	r.only([]string{"cp3"}, "destroy", r.delete)
	r.only([]string{"cp3"}, "create again", r.create)
}

// restartTwice changes a flag of all members, twice.
func (r *rig) restartTwice() {
	r.t.Helper()
	for i := range 2 {
		r.edit(func(s *Spec) { s.ExtraArgs["max-txn-ops"] = fmt.Sprint(200 + i) }, everyone...)
		r.all("restart", r.update)
	}
}

func (r *rig) awaitHealthy() {
	r.t.Helper()
	var v membership.View
	done, err := poll.Until(r.t.Context(), 200*time.Millisecond, 20*time.Second, func() (bool, error) {
		s := r.specs["cp1"]
		var err error
		v, err = r.clusters.of(s).view(r.t.Context(), s)
		return err == nil && membership.RequireAllHealthy(v) == nil, nil
	})
	if err != nil || !done {
		r.t.Fatalf("%v: not healthy:\n%s", err, v)
	}
}

// expectMembersKnown: no member has refused a change of members when it started, and all know the leader, whoever it
// is.
func (r *rig) expectMembersKnown() {
	r.t.Helper()
	const refused = "journalctl --unit=etcd --no-pager | grep 'Validation on configuration change' | head -c 300"
	for _, name := range everyone {
		if text := r.sh(name, refused); text != "" {
			r.t.Errorf("%s has refused changes of members when it started: %s", name, text)
		}
		r.only([]string{name}, "lead", func(ctx context.Context, s Spec) error {
			_, err := r.clusters.MoveLeader(ctx, s, s.Name)
			return err
		})
		r.awaitHealthy()
	}
}

// writeMore writes more than etcd applies in one batch after a start, which is 1 MiB.
func (r *rig) writeMore() {
	r.t.Helper()
	r.sh("cp1", `head -c 100000 /dev/zero | tr '\0' x >/tmp/value
for i in $(seq 60); do
  /opt/kube/etcd/`+newRelease+`/etcdctl --endpoints=$(hostname -I | awk '{ print "https://" $1 ":2379" }') \
    --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --key=/etc/kubernetes/pki/etcd/healthcheck-client.key put key$((i % 3)) </tmp/value >/dev/null
done
rm /tmp/value`)
}
