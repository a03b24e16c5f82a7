package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestReplayOnMachines: etcd 3.6 that was upgraded from 3.5, with more log than fits into one batch and with a member
// that was replaced since. Two restarts of its members leave all of them with the members that there are, whoever leads.
// Without a snapshot between, the second restart leaves a member that counts the one that was removed.
func TestReplayOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdreplay", "10.78.0.0/24", []string{oldRelease, newRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, oldRelease)
		r.to(newRelease)
		r.all("upgrade", r.update)
		r.writeMore()
		r.only([]string{"cp3"}, "destroy", r.delete)
		r.only([]string{"cp3"}, "create again", r.create)
		for i := range 2 {
			r.edit(func(s *Spec) { s.ExtraArgs["max-txn-ops"] = fmt.Sprint(200 + i) }, everyone...)
			r.all("restart", r.update)
		}
		for _, name := range everyone {
			if refused := r.sh(name, "journalctl --unit=etcd --no-pager | grep -c 'Validation on configuration change' || :"); strings.TrimSpace(refused) != "0" {
				t.Errorf("%s has refused changes of members when it started: %s", name, refused)
			}
			r.only([]string{name}, "lead", func(ctx context.Context, s Spec) error {
				_, err := r.clusters.MoveLeader(ctx, s, s.Name)
				return err
			})
			if err := membership.RequireAllHealthy(r.view()); err != nil {
				t.Errorf("while %s leads: %v", name, err)
			}
		}
		r.all("destroy", r.delete)
	})
}

// writeMore writes more than etcd applies in one batch after a start, which is 1 MiB.
func (r *rig) writeMore() {
	r.t.Helper()
	r.sh("cp1", `head -c 100000 /dev/zero | tr '\0' x >/tmp/value
for i in $(seq 60); do
  /opt/kube/etcd/`+newRelease+`/etcdctl --endpoints=https://10.78.0.11:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt \
    --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key \
    put key$((i % 3)) </tmp/value >/dev/null
done
rm /tmp/value`)
}
