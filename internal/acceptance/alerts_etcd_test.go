package acceptance

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// drill runs a restore drill that fails.
func (a alarms) drill(t *testing.T) {
	t.Helper()
	cause := time.Now()
	file := filepath.Join(a.w.Dir, "drill.tf")
	write(t, file, failingDrill)
	expectContains(t, refused(t, a.w), "fetch")
	write(t, file, "")
	// The last one that succeeded is 40 days ago.
	a.on(t, "cp2", `sed -i "s/\"last_success\": 0/\"last_success\": $(date -d '-40 days' +%s)/" `+
		"/etc/etcd/restore-drill.json")
	a.p.expectAlerts(t, cause, 4*time.Minute, "EtcdRestoreDrillFailed", "EtcdRestoreDrillTooOld")
}

// configure sets the newest versions, and the stage of the rotation.
func (a alarms) configure(t *testing.T, stage int) {
	t.Helper()
	override(t, a.w, fmt.Sprintf(alertsConfig, release(t, "kubernetes"), release(t, "etcd"), stage))
}

// halfUpgraded upgrades one member, and then all members and one replica. It returns since when one replica is ahead.
func (a alarms) halfUpgraded(t *testing.T) time.Time {
	t.Helper()
	a.configure(t, 0)
	cause := time.Now()
	applyOnly(t, a.w, "the rest follows", `-target=module.control_plane.kube_etcd_member.this["cp1"]`)
	a.p.expectAlerts(t, cause, 6*time.Minute, "EtcdMixedVersions")
	cause = time.Now()
	applyOnly(t, a.w, "the rest follows", `-target=module.control_plane.kube_control_plane_replica.this["cp1"]`)
	return cause
}

// halfRotated takes one replica to the next stage of a rotation. Its facts say that it has been there for eight days.
func (a alarms) halfRotated(t *testing.T) time.Time {
	t.Helper()
	a.configure(t, 1)
	cause := time.Now()
	applyOnly(t, a.w, "the rest follows", `-target=module.control_plane.kube_control_plane_replica.this["cp1"]`)
	a.on(t, "cp1", `systemctl start kube-facts.service
sed -i "s/^\(kube_rotation_since_timestamp_seconds.* \)[0-9]*$/\1$(date -d '-8 days' +%s)/" `+
		"/var/lib/prometheus/node-exporter/kube_control_plane_replica.prom")
	return cause
}

// leaders moves the leader often.
func (a alarms) leaders(t *testing.T) {
	t.Helper()
	cause := time.Now()
	a.on(t, "cp1", everywhere+`for i in 1 2 3 4 5; do
  status=$(etcdctl --endpoints="$all" endpoint status --write-out=fields)
  leader=$(printf '%s\n' "$status" | sed -n 's/^"Leader" : //p' | head -n 1)
  to=$(printf '%s\n' "$status" | sed -n 's/^"MemberID" : //p' | grep -vx "$leader" | head -n 1)
  etcdctl --endpoints="$all" move-leader "$(printf %x "$to")"
done`)
	a.p.expectAlerts(t, cause, 4*time.Minute, "EtcdHighNumberOfLeaderChanges")
}

// snapshots stops the upload.
func (a alarms) snapshots(t *testing.T) {
	t.Helper()
	cause := time.Now()
	a.onAll(t, "touch /srv/refuse")
	a.p.expectAlerts(t, cause, 8*time.Minute, "EtcdSnapshotNotSent")
	a.onAll(t, "rm /srv/refuse")
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

// slowAlerts are the alerts of a slow disk on cp3.
func slowAlerts() []string {
	return []string{
		"EtcdHighFsyncDurations cp3", "EtcdVeryHighFsyncDurations cp3", "EtcdHighCommitDurations cp3",
		"EtcdGRPCRequestsSlow cp3", "KubeAPIEtcdSlow cp3",
	}
}

// slowMember slows the disk of a member, and then stops its process again and again, so that it answers its peers late.
func (a alarms) slowMember(t *testing.T) {
	t.Helper()
	a.p.expectEnd(t, slowAlerts()...) // of the installation
	cause := time.Now()
	m := shared.lab.Machine("cp3")
	t.Cleanup(func() { _ = m.SlowDisk(0) })
	if err := m.SlowDisk(2); err != nil {
		t.Fatal(err)
	}
	a.p.expectAlerts(t, cause, 6*time.Minute, slowAlerts()...)
	if err := m.SlowDisk(0); err != nil {
		t.Fatal(err)
	}
	send := func(signal string) func() error {
		return func() error {
			_, err := m.Run(t.Context(), "systemctl kill --signal="+signal+" etcd")
			return err
		}
	}
	cause = time.Now()
	end := again(t, send("STOP"), send("CONT"), 600*time.Millisecond)
	a.p.expectAlerts(t, cause, 6*time.Minute, "EtcdMemberCommunicationSlow")
	end()
}

// again does something for a time and undoes it, again and again until end is called.
func again(t *testing.T, do, undo func() error, lasts time.Duration) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			if err := do(); err != nil {
				t.Error(err)
			}
			time.Sleep(lasts)
			if err := undo(); err != nil {
				t.Error(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	end = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(end)
	return end
}

// learner removes a member and lets it join again without the promotion. Its facts say that it has been a learner for
// two hours.
func (a alarms) learner(t *testing.T) {
	t.Helper()
	cause := time.Now()
	const remove = `etcdctl member remove "$(etcdctl member list | sed -n 's/, .*https:..10.97.0.13:2380.*//p')"`
	const clear = "systemctl stop etcd; rm -rf /var/lib/etcd/member /etc/etcd/member.json /etc/etcd/bootstrap.env"
	a.on(t, "cp1", remove)
	a.on(t, "cp3", clear)
	environment := a.on(t, "cp1", "etcdctl member add cp3 --learner --peer-urls=https://10.97.0.13:2380 | "+
		"grep ^ETCD_INITIAL_CLUSTER")
	a.on(t, "cp3", "cat >/etc/etcd/bootstrap.env <<'E'\n"+environment+"E\nsystemctl start etcd")
	a.on(t, "cp3", `systemctl start etcd-facts.service
sed -i "s/^\(kube_etcd_learner_since_timestamp_seconds.* \)[0-9]*$/\1$(date -d '-2 hours' +%s)/" `+
		"/var/lib/prometheus/node-exporter/kube_etcd_member.prom")
	a.p.expectAlerts(t, cause, 5*time.Minute, "EtcdLearnerStays cp3", "EtcdLearnerSince cp3")
	a.on(t, "cp1", remove)
	a.on(t, "cp3", clear)
	apply(t, a.w)
}
