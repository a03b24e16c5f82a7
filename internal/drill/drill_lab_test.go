package drill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestDrillOnAMachine drills with a real member and a real replica: good and damaged snapshots, keys that do
// not fit, too little space, and drills that are cut off. The member and its replica serve all the time.
func TestDrillOnAMachine(t *testing.T) {
	testrun.Long(t)
	st := newStage(t)
	live := st.watchLive()
	st.good()
	st.fetched()
	st.damaged()
	st.otherKeys()
	st.space()
	st.cutOff()
	st.killed()
	st.cancelled()
	st.bucket()
	st.together()
	st.hostile()
	live()
	st.powerCut()
}

// drill runs a drill, and expects that nothing of it is left.
func (st *stage) drill(source Source) (snapshot.Drill, error) {
	st.Helper()
	s := st.spec
	s.Source = source
	begun := time.Now()
	result, err := Run(st.ctx, s)
	st.Logf("%s: %.1f s, %v", source.kind(), time.Since(begun).Seconds(), err)
	st.nothingLeft()
	return result, err
}

// recorded reads the record on the machine.
func (st *stage) recorded() snapshot.Drill {
	st.Helper()
	r, err := snapshot.ReadDrill(st.run("cat /etc/etcd/restore-drill.json"))
	if err != nil {
		st.Error(err)
	}
	return r
}

// succeeds expects a drill that finds everything in order.
func (st *stage) succeeds(source Source) snapshot.Drill {
	st.Helper()
	r, err := st.drill(source)
	if err != nil {
		st.Error(err)
		return r
	}
	if !r.Succeeded || !r.Compared || !r.Tokens || r.Encrypted < 40 || r.Objects["secrets"] != 40 ||
		r.Objects["configmaps"] < 30 || r.RTO <= 0 || r.Saved == 0 || len(r.SHA256) != 64 || r.Revision == 0 || r.Size == 0 {
		st.Errorf("the result is %+v", r)
	}
	for _, step := range snapshot.DrillSteps {
		if r.Steps[step] <= 0 && step != "fetch" {
			st.Errorf("step %s took %g s", step, r.Steps[step])
		}
	}
	if again := st.recorded(); again.Finished != r.Finished || again.RTO != r.RTO || again.LastSuccess != r.Finished {
		st.Errorf("the record is %+v", again)
	}
	st.Logf("RTO %.2f s %v, RPO %d s", r.RTO, r.Steps, r.RPO)
	return r
}

// fails expects a drill that fails for a reason, is recorded as failed, and leaves the last success known.
func (st *stage) fails(source Source, want string) {
	st.Helper()
	before := st.recorded()
	_, err := st.drill(source)
	if err == nil || !strings.Contains(err.Error(), want) {
		st.Errorf("%v, want %q", err, want)
	}
	if r := st.recorded(); r.Succeeded || !strings.Contains(r.Problem, want) || r.LastSuccess != before.LastSuccess {
		st.Errorf("the record is %+v, want the problem %q and the success of %d", r, want, before.LastSuccess)
	}
}

// good drills with the newest snapshot on the machine, before and after more was written.
func (st *stage) good() {
	st.Helper()
	r := st.succeeds(Source{})
	if r.Source != "newest" || !strings.HasSuffix(r.Snapshot, "-cp1.db") {
		st.Errorf("the snapshot is %s from %s", r.Snapshot, r.Source)
	}
	st.objects("configmaps", "later", 20)
	st.objects("secrets", "later", 20)
	st.succeeds(Source{})
}

// fetched drills with what commands bring. The age is that of the data, not that of the file.
func (st *stage) fetched() {
	st.Helper()
	st.run("cp /var/lib/etcd-archive/scheduled/*-cp1.db /root/good.db; echo PLACE=/root >/root/env")
	begun := time.Now().Add(-5 * time.Second).Unix()
	r := st.succeeds(Source{Fetch: `name=good; cp "$PLACE/${name}.db" "$SNAPSHOT"`, EnvironmentFile: "/root/env"})
	if r.Source != "fetch" || r.Saved >= begun || r.RPO < 5 {
		st.Errorf("the snapshot was saved at %d, and it is %d s old", r.Saved, r.RPO)
	}
	st.fails(Source{Fetch: "exit 3"}, "the fetch commands failed")
	st.fails(Source{Fetch: "true"}, "have not written the file")
}

func (st *stage) damaged() {
	st.Helper()
	st.run(`cp /root/good.db /root/flipped.db
printf x | dd of=/root/flipped.db bs=1 seek=20000 conv=notrunc 2>/dev/null
head -c -1 /root/good.db >/root/short.db; head -c -32 /root/good.db >/root/bare.db`)
	for file, want := range map[string]string{
		"flipped": "is corrupt", "short": "is incomplete", "bare": "has no integrity hash",
	} {
		st.fails(Source{Snapshot: "/root/" + file + ".db"}, want)
	}
	before := st.recorded()
	_, err := st.drill(Source{Snapshot: "/root/absent.db"})
	if err == nil || !strings.Contains(err.Error(), "is not a file") || st.recorded().Finished != before.Finished {
		st.Errorf("%v: a drill without its snapshot is recorded, or not refused", err)
	}
}

// otherKeys drills while the machine or the bundle has other keys than those that the snapshot needs. The
// live API server has read its own before.
func (st *stage) otherKeys() {
	st.Helper()
	right := st.spec.Bundle
	wrong := *right
	wrong.Encryption.Key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	st.spec.Bundle = &wrong
	st.fails(Source{}, "key1")
	st.spec.Bundle = right

	const otherKey host.Script = `sed -i 's/secret: .*/secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=/' `
	st.exchanged(component.EncryptionConfigPath, otherKey+component.EncryptionConfigPath, func() {
		st.fails(Source{}, "with its present keys")
	})
	st.exchanged(component.SAPub, `openssl ecparam -name prime256v1 -genkey -noout | openssl ec -pubout >`+component.SAPub+
		" 2>/dev/null", func() { st.fails(Source{}, "tokens of service accounts would not be accepted") })
	st.succeeds(Source{})
}

// exchanged runs f while a file is another one.
func (st *stage) exchanged(file string, change host.Script, f func()) {
	st.Helper()
	st.run("cp -a " + host.Words(file) + " /root/before")
	st.run(change)
	f()
	st.run("cp -a /root/before " + host.Words(file) + "; rm /root/before")
}

// space drills on disks that are too small.
func (st *stage) space() {
	st.Helper()
	const free host.Script = "df --output=used -B1 /var/lib/etcd-archive | tail -n 1"
	st.run("mount -t tmpfs -o size=200m tmpfs /var/lib/etcd-archive")
	st.fails(Source{Snapshot: "/root/good.db"}, "not enough space")
	st.run("mount -o remount,size=400m /var/lib/etcd-archive")
	before := st.run(free)
	st.fails(Source{Fetch: `head -c 10G /dev/zero >"$SNAPSHOT"`}, "the fetch commands failed")
	if after := st.run(free); after != before {
		st.Errorf("%s bytes were used, now %s", before, after)
	}
	st.run("umount /var/lib/etcd-archive")
}

// prepare returns what starts a drill from a source, with a connection of its own.
func (st *stage) prepare(source Source) (Spec, place, credentials) {
	st.Helper()
	s := st.spec
	s.Host, s.Source = st.connect(), source
	at, err := examine(st.ctx, s)
	if err != nil {
		st.Fatal(err)
	}
	keys, err := newCredentials()
	if err != nil {
		st.Fatal(err)
	}
	return s, at, keys
}

// begin starts a drill as a process does that is killed afterwards.
func (st *stage) begin() {
	st.Helper()
	s, at, keys := st.prepare(st.spec.Source)
	if _, err := s.start(st.ctx, at, keys); err != nil {
		st.Fatal(err)
	}
	if state := st.run("systemctl is-active kube-restore-drill.service"); state != "active" {
		st.Errorf("the unit is %s", state)
	}
}

// cutOff leaves drills behind: the machine removes the data when the unit ends, and the next drill the rest.
func (st *stage) cutOff() {
	st.Helper()
	st.begin()
	st.succeeds(Source{})
	st.begin()
	if out := st.run("nsenter --mount --target=$(systemctl show --property=MainPID --value kube-restore-drill.service) " +
		"touch /var/lib/etcd-archive/scheduled/x 2>&1 || true"); !strings.Contains(out, "Read-only file system") {
		st.Errorf("the unit may write to the directory of scheduled snapshots: %s", out)
	}
	st.run("systemctl kill --signal=KILL kube-restore-drill.service\n" +
		"for unit in kube-restore-drill.service kube-restore-drill-door.socket; do\n" +
		"  until systemctl show --property=ActiveState --value $unit | grep -qx -e inactive -e failed; do sleep 0.1; done\n" +
		"done")
	if left := st.run("ls -d /var/lib/etcd-archive/drill /run/kube-restore-drill/tls.key 2>/dev/null || true; " +
		"ss -Hltn 'sport >= 36443 and sport < 36463'"); left != "" {
		st.Errorf("a killed unit has left %s", left)
	}
	st.succeeds(Source{})
}

// killed ends the script of a drill with SIGKILL while a unit fetches its snapshot: no trap runs, and the unit that
// would clean up never starts. The guard removes what is left.
func (st *stage) killed() {
	st.Helper()
	s, at, keys := st.prepare(Source{Fetch: `cp /root/good.db "$SNAPSHOT"; touch /root/fetching; exec sleep 3600`})
	ended := make(chan error, 1)
	go func() {
		_, err := s.start(st.ctx, at, keys)
		ended <- err
	}()
	// This script itself has another text.
	st.run(`until [ -e /root/fetching ]; do sleep 0.1; done
rm /root/fetching
for file in $(grep -ls 'open[_]door' /proc/[0-9]*/cmdline); do
  process=${file#/proc/}
  kill -KILL "${process%/*}" || true
done`)
	if err := <-ended; err == nil {
		st.Error("a drill that was killed has started")
	}
	st.run(`[ -e /var/lib/etcd-archive/drill/received.db ]
unit=kube-restore-drill
systemctl is-active --quiet $unit-fetch.service
systemctl is-active --quiet $unit-guard.timer
systemctl start $unit-guard.service
while systemctl is-active --quiet $unit-guard.service; do sleep 0.1; done`)
	if left := st.run("ls -d /var/lib/etcd-archive/drill /run/kube-restore-drill 2>/dev/null || true; " +
		"! systemctl is-active kube-restore-drill-fetch.service"); left != "inactive" {
		st.Errorf("the guard has left %s", left)
	}
	st.succeeds(Source{})
}

// cancelled ends a drill while its API server starts.
func (st *stage) cancelled() {
	st.Helper()
	ctx, cancel := context.WithCancel(st.ctx)
	defer cancel()
	ctx = problem.WithReport(ctx, problem.Report{Progress: func(line string) {
		if strings.Contains(line, "starting an API server") {
			cancel()
		}
	}})
	_, err := Run(ctx, st.spec)
	if !errors.Is(err, context.Canceled) {
		st.Error(err)
	}
	st.nothingLeft()
	if r := st.recorded(); r.Succeeded || r.LastSuccess == 0 {
		st.Errorf("the record is %+v", r)
	}
}

// powerCut cuts the machine's power during a drill.
func (st *stage) powerCut() {
	st.Helper()
	st.begin()
	m := machines.lab.Machine("cp1")
	if err := m.PowerOff(st.ctx); err != nil {
		st.Fatal(err)
	}
	if err := m.Boot(st.ctx); err != nil {
		st.Fatal(err)
	}
	st.spec.Host = st.connect()
	left := st.run("ls /var/lib/etcd-archive/drill; ls -d /run/kube-restore-drill 2>/dev/null || true")
	if strings.Contains(left, "/run/kube-restore-drill") {
		st.Errorf("keys of the drill are there: %s", left)
	}
	survey := st.liveSurvey()
	defer survey.Close()
	for survey.Health(st.ctx) != client.Healthy && st.ctx.Err() == nil {
		time.Sleep(poll)
	}
	st.succeeds(Source{})
}

// liveSurvey asks the live API server.
func (st *stage) liveSurvey() client.Survey {
	st.Helper()
	s, err := client.New(st.connect(), component.Replica{Address: st.spec.Host.Address(), Bundle: st.spec.Bundle}).Survey()
	if err != nil {
		st.Fatal(err)
	}
	return s
}

// watchLive writes to the live member and asks the live API server until the returned function is called. Every
// write and every answer must succeed, and nothing may restart.
func (st *stage) watchLive() (done func()) {
	st.Helper()
	const processes host.Script = "systemctl show --property=MainPID,NRestarts --value etcd kube-apiserver " +
		"kube-scheduler kube-controller-manager"
	before := st.run(processes)
	st.run(etcdctl + `cat >/root/writes.sh <<'END'
` + etcdctl + `rm -f /root/writes
until [ -e /root/enough ]; do
  begun=$(date +%s%N)
  if c --command-timeout=5s put /drill/live x >/dev/null; then state=ok; else state=failed; fi
  echo "$state $((($(date +%s%N) - begun) / 1000000))" >>/root/writes
  sleep 0.1
done
END
systemd-run --quiet --collect --unit=writes /bin/sh /root/writes.sh
sleep 3`)
	quiet := st.run(worst)
	ctx, cancel := context.WithCancel(st.ctx)
	answers, failures := 0, 0
	ended := make(chan struct{})
	survey := st.liveSurvey()
	go func() {
		defer close(ended)
		defer survey.Close()
		for ; ctx.Err() == nil; time.Sleep(poll) {
			if answers++; survey.Health(ctx) != client.Healthy && ctx.Err() == nil {
				failures++
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		st.run("touch /root/enough; while systemctl is-active -q writes.service; do sleep 0.1; done")
		st.Logf("writes before the drills (number, failed, worst in ms): %s; with them: %s; the API server: %d answers, "+
			"%d failures", quiet, st.run(worst), answers, failures)
		if after := st.run(processes); after != before {
			st.Errorf("the processes were\n%s\nand are\n%s", before, after)
		}
		if fields := strings.Fields(st.run(worst)); len(fields) != 3 || fields[1] != "0" || failures > 0 {
			st.Errorf("writes %v, %d of %d answers of the API server failed", fields, failures, answers)
		}
	}
}

// worst prints the number of writes, that of those that failed, and the longest time of one in milliseconds.
const worst host.Script = `awk '{ n++; if ($1 != "ok") failed++; if ($2 > most) most = $2 }
  END { print n, failed + 0, most }' /root/writes`
