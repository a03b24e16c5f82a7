package etcd

import (
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
)

const (
	// store represents remote storage.
	store = "/srv/elsewhere"
	// never is a schedule that does not elapse during a test.
	never = "*-01-31 00:00"
	// startSnapshot starts what the timer starts, and prints the result.
	startSnapshot = "systemctl start etcd-snapshot.service 2>/dev/null; systemctl show --property=Result " +
		"--value etcd-snapshot.service"
	// savedThere and sentThere list the snapshots on a machine, and the uploaded ones.
	savedThere = "ls /var/lib/etcd-archive/scheduled | grep 'db$' || true"
	sentThere  = "ls " + store
)

// schedule tests scheduled snapshots: the machine of the leader saves and uploads, a
// failed upload is repeated later, and surplus snapshots are removed.
func (r *rig) schedule() {
	r.t.Helper()
	begin := time.Now()
	defer func() { r.t.Logf("scheduled snapshots: %s", time.Since(begin).Round(time.Second)) }()
	for name, s := range r.specs {
		s.Snapshots = &snapshot.Settings{
			Schedule: never, Kept: 2, EnvironmentFile: "/etc/store.env",
			Upload: `cp "$SNAPSHOT" "$STORE/$CLUSTER.$MEMBER.$SNAPSHOT_NAME"`,
		}
		r.specs[name] = s
	}
	r.refuseSchedule()
	for _, name := range everyone {
		r.sh(name, "mkdir -p "+store+"; umask 077; echo STORE="+store+" >/etc/store.env")
	}
	r.unrestarted(func() {
		r.all("schedule snapshots", r.update)
		r.all("read", r.same)
		r.saveOnSchedule()
		r.importSchedule()
		r.driftOfSchedule()
	})
	r.sendLater()
	r.keepTwo()
	r.withoutSchedule()
}

// unrestarted runs f, which must restart no member.
func (r *rig) unrestarted(f func()) {
	r.t.Helper()
	before := r.processes()
	f()
	if after := r.processes(); !maps.Equal(before, after) {
		r.t.Errorf("etcd was restarted: %v, before %v", after, before)
	}
}

// leader returns the name of the leader, as soon as there is one.
func (r *rig) leader() string {
	r.t.Helper()
	var leader string
	done, err := poll.Until(r.t.Context(), r.clusters.pace.Poll, r.clusters.pace.StallTimeout, func() (bool, error) {
		for _, name := range everyone {
			if status, err := r.clusters.Read(r.t.Context(), r.specs[name]); err == nil && status.Leader && status.Healthy {
				leader = name
			}
		}
		return leader != "", nil
	})
	if !done || err != nil {
		r.t.Fatalf("nobody leads: %v", err)
	}
	return leader
}

// lines splits the output of a command.
func lines(out string) []string { return strings.Fields(strings.TrimSpace(out)) }

// refuseSchedule verifies that what a machine cannot use is refused, and that nothing is
// written.
func (r *rig) refuseSchedule() {
	r.t.Helper()
	s := r.specs["cp2"]
	good := *s.Snapshots
	s.Snapshots = &snapshot.Settings{Schedule: "*-13-01", Kept: 2, EnvironmentFile: "/etc/store.env"}
	_, err := r.clusters.Update(r.t.Context(), s)
	etcdtest.WantError(r.t, "a month that is none", err, `its systemd rejects the schedule "*-13-01" of snapshots`)
	etcdtest.WantError(r.t, "no environment file", err, "environment_file /etc/store.env of snapshots does not exist")
	r.sh("cp2", "echo STORE=x >/etc/store.env; echo '[Timer]' >"+snapshot.TimerPath)
	s.Snapshots = &good
	_, err = r.clusters.Update(r.t.Context(), s)
	etcdtest.WantError(r.t, "somebody's timer", err, snapshot.TimerPath+" exists and was not written by the provider")
	r.sh("cp2", "test \"$(cat "+snapshot.TimerPath+")\" = '[Timer]' && rm "+snapshot.TimerPath+
		"; systemctl daemon-reload; test ! -e "+snapshot.ServicePath+"; test ! -e "+snapshot.ScriptPath)
}

// saveOnSchedule verifies that one of three machines saves, and uploads a file that can be
// restored.
func (r *rig) saveOnSchedule() {
	r.t.Helper()
	leader := r.leader()
	for _, name := range everyone {
		if got := strings.TrimSpace(r.sh(name, startSnapshot)); got != "success" {
			r.t.Fatalf("%s: the service ended with %s:\n%s", name, got,
				r.sh(name, "journalctl --no-pager -u etcd-snapshot.service | tail -n 20"))
		}
		saved, sent := lines(r.sh(name, savedThere)), lines(r.sh(name, sentThere))
		if name != leader && len(saved)+len(sent) > 0 {
			r.t.Errorf("%s does not lead, and has saved %v, and sent %v", name, saved, sent)
		}
		if name == leader && (len(saved) != 1 || len(sent) != 1 || sent[0] != "lab."+name+"."+saved[0]) {
			r.t.Fatalf("%s leads, and has saved %v, and sent %v", name, saved, sent)
		}
	}
	modes := strings.TrimSpace(r.sh(leader, "cd /var/lib/etcd-archive; stat -c '%a %U' . scheduled scheduled/*.db "+
		snapshot.UploadPath))
	if modes != "700 root\n700 root\n600 root\n600 root" {
		r.t.Errorf("modes and owners are\n%s", modes)
	}
	const restored = `d=$(mktemp -d)
etcd=$(echo /opt/kube/etcd/*)
$etcd/etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt \
  --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
  --key=/etc/kubernetes/pki/etcd/healthcheck-client.key put /kept yes >/dev/null
systemctl start etcd-snapshot.service
$etcd/etcdutl snapshot restore $(ls ` + store + `/* | tail -n 1) --data-dir $d/data --skip-hash-check=false \
  >/dev/null 2>&1
$etcd/etcd --data-dir $d/data --listen-client-urls http://127.0.0.1:12379 \
  --advertise-client-urls http://127.0.0.1:12379 \
  --listen-peer-urls http://127.0.0.1:12380 >$d/log 2>&1 &
for i in $(seq 100); do
  $etcd/etcdctl --endpoints=http://127.0.0.1:12379 --command-timeout=1s \
    get --print-value-only /kept 2>/dev/null && break
  sleep 0.1
done
kill $!
wait
rm -rf $d`
	if got := strings.TrimSpace(r.sh(leader, restored)); got != "yes" {
		r.t.Errorf("of what was restored: %q", got)
	}
}

// importSchedule verifies that the configuration can be imported from the machine alone.
func (r *rig) importSchedule() {
	r.t.Helper()
	s := r.specs["cp3"]
	if got, err := r.clusters.Import(r.t.Context(), s.Host); err != nil || !reflect.DeepEqual(got.Snapshots, s.Snapshots) {
		r.t.Errorf("imported as %+v, %v", got.Snapshots, err)
	}
}

// driftOfSchedule verifies that manual changes are reported as drift, and repaired.
func (r *rig) driftOfSchedule() {
	r.t.Helper()
	s := r.specs["cp2"]
	for script, wanted := range map[string][]string{
		"systemctl disable --quiet --now etcd-snapshot.timer; sed -i 's/^Nice=.*/Nice=0/' " + snapshot.ServicePath +
			"; systemctl daemon-reload; echo >>" + snapshot.ScriptPath + "; chmod 0644 " + snapshot.UploadPath: {
			"etcd-snapshot.timer is inactive, wanted active", "etcd-snapshot.timer is disabled, wanted enabled",
			snapshot.ServicePath + ` has the line "Nice=0"`,
			snapshot.ScriptPath + " was edited manually", snapshot.UploadPath + " has mode 0644",
		},
		"systemctl stop etcd-snapshot.timer; ln -sf /dev/null " + snapshot.TimerPath + "; systemctl daemon-reload; rm " +
			snapshot.UploadPath: {
			"etcd-snapshot.timer is masked", snapshot.UploadPath + " is missing",
		},
		"sed -i 's/^OnCalendar=.*/OnCalendar=daily/' " +
			snapshot.TimerPath: {snapshot.TimerPath + ` has the line "OnCalendar=daily"`},
	} {
		r.sh("cp2", script)
		status, err := r.clusters.Read(r.t.Context(), s)
		for _, want := range wanted {
			if words := strings.Join(status.Drift, "\n"); !strings.Contains(words, want) {
				r.t.Errorf("after %s: drift lacks %q:\n%s (%v)", script, want, words, err)
			}
		}
		r.only([]string{"cp2"}, "repair", r.update)
	}
	r.only([]string{"cp2"}, "read", r.same)
	if got := strings.TrimSpace(r.sh("cp2",
		"systemctl show --property=NextElapseUSecRealtime --value etcd-snapshot.timer")); !strings.Contains(got,
		"-01-31 00:00:00") {
		r.t.Errorf("the timer elapses at %q", got)
	}
}

// sendLater verifies that a failed upload is repeated by a later run, also on a machine
// that is no longer the leader's.
func (r *rig) sendLater() {
	r.t.Helper()
	leader := r.leader()
	r.sh(leader, "mv "+store+" "+store+".away")
	if got := strings.TrimSpace(r.sh(leader, startSnapshot)); got != "exit-code" {
		r.t.Errorf("an upload that fails ends with %s", got)
	}
	health := r.clusters.Health(r.t.Context(), r.specs[leader].Peers, r.specs[leader].Bundle)
	for _, m := range health.Machines {
		if failed := m.Member == leader; (m.SnapshotFailed == "exit-code") != failed {
			r.t.Errorf("%s: the last run failed: %q", m.Member, m.SnapshotFailed)
		}
	}
	saved := lines(r.sh(leader, savedThere))
	r.sh(leader, "mv "+store+".away "+store+"; systemctl restart etcd")
	next := r.leader()
	if next == leader {
		r.t.Fatalf("%s leads again", leader)
	}
	for _, name := range everyone {
		if got := strings.TrimSpace(r.sh(name, startSnapshot)); got != "success" {
			r.t.Errorf("%s: the service ended with %s", name, got)
		}
	}
	if now, sent := lines(r.sh(leader, savedThere)), r.sh(leader, sentThere); !reflect.DeepEqual(now, saved) ||
		!strings.Contains(sent, saved[len(saved)-1]) {
		r.t.Errorf("%s, which leads no more, has %v (before %v), and has sent\n%s", leader, now, saved, sent)
	}
	if saved, sent := lines(r.sh(next, savedThere)), lines(r.sh(next, sentThere)); len(saved) != 1 || len(sent) != 1 {
		r.t.Errorf("%s leads, and has saved %v, and sent %v", next, saved, sent)
	}
	_, observations := r.clusters.Review(r.t.Context(), r.specs[next].Peers, r.specs[next].Bundle)
	for _, observed := range observations {
		name := map[string]string{
			r.specs[leader].Host.Address(): leader,
			r.specs[next].Host.Address():   next,
		}[observed.Address]
		if s := observed.Scheduled; s == nil || s.Failed || !s.Uploads || s.Next.IsZero() || s.Since.IsZero() ||
			s.Sent.IsZero() != (name == "") ||
			len(observed.Timers) > 0 {
			r.t.Errorf("review of %s: %+v, %+v", observed.Address, s, observed.Timers)
		}
	}
}

// keepTwo verifies that no more than two snapshots stay. Uploaded ones are removed first,
// and the removal of one that was not uploaded is a failure.
func (r *rig) keepTwo() {
	r.t.Helper()
	leader := r.leader()
	sent := lines(r.sh(leader, savedThere))
	r.sh(leader, "mv "+store+" "+store+".away")
	for i := range 3 {
		r.sh(leader, "sleep 1; "+startSnapshot) // a name has the resolution of a second
		left := lines(r.sh(leader, savedThere))
		if len(sent) != 1 || len(left) != 2 || (left[0] == sent[0]) != (i == 0) {
			r.t.Errorf("after %d runs that send nothing there are %v, before that %v", i+1, left, sent)
		}
	}
	if log := r.sh(leader, "journalctl --no-pager -u etcd-snapshot.service"); strings.Count(log,
		"was never uploaded and is removed") != 1 {
		r.t.Errorf("one was not sent and had to go:\n%s", log)
	}
	r.sh(leader, "mv "+store+".away "+store)
	if got := strings.TrimSpace(r.sh(leader, startSnapshot)); got != "success" {
		r.t.Errorf("the service ended with %s", got)
	}
}

// withoutSchedule verifies that the units are removed, that saved snapshots stay, and that
// another party's units of that name are not changed.
func (r *rig) withoutSchedule() {
	r.t.Helper()
	s := r.specs["cp1"]
	s.Snapshots = nil
	r.specs["cp1"] = s
	status, err := r.clusters.Read(r.t.Context(), s)
	if words := strings.Join(status.Drift, "\n"); err != nil ||
		!strings.Contains(words, snapshot.TimerPath+" exists, wanted none") {
		r.t.Errorf("drift is\n%s (%v)", words, err)
	}
	r.unrestarted(func() { r.only([]string{"cp1"}, "schedule none", r.update) })
	const left = "for p in /etc/etcd/snapshot* /etc/systemd/system/*snapshot* " +
		"/etc/systemd/system/timers.target.wants/*snapshot* /var/lib/systemd/timers/*snapshot*; do [ ! -e $p ] || echo $p; " +
		"done; systemctl is-active etcd-snapshot.timer || true"
	if got := strings.TrimSpace(r.sh("cp1", left)); got != "inactive" {
		r.t.Errorf("there is still\n%s", got)
	}
	r.sh("cp1", "printf '[Timer]\\nOnCalendar=yearly\\n' >"+snapshot.TimerPath+
		"; printf '[Service]\\nExecStart=/bin/true\\n' >"+snapshot.ServicePath+"; systemctl daemon-reload; systemctl "+
		"start etcd-snapshot.timer")
	r.only([]string{"cp1"}, "read", r.same)
}

// afterSchedule verifies that the units were removed with the members, except another
// party's, and that saved snapshots still exist. It restores the initial state of the
// machines.
func (r *rig) afterSchedule() {
	r.t.Helper()
	for _, name := range everyone {
		units := strings.Join(lines(r.sh(name, "ls /etc/systemd/system | grep snapshot || true")), " ")
		if want := map[string]string{"cp1": snapshot.Service + " " + snapshot.Timer}[name]; units != want {
			r.t.Errorf("%s has the units %q, wanted %q", name, units, want)
		}
	}
	r.sh("cp1", "systemctl is-active --quiet etcd-snapshot.timer; systemctl stop etcd-snapshot.timer; rm "+
		snapshot.TimerPath+" "+snapshot.ServicePath+"; systemctl daemon-reload")
	saved := 0
	for name, s := range r.specs {
		s.Snapshots = nil
		r.specs[name] = s
		saved += len(lines(r.sh(name, "ls /var/lib/etcd-archive/scheduled/*.db || true")))
	}
	if saved < 2 {
		r.t.Errorf("%d scheduled snapshots outlived the members", saved)
	}
}
