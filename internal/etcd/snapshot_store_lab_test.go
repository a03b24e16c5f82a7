package etcd

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// Credentials of the S3 server in the lab, and where the member's machine has them.
const (
	storeAccess      = "AKIALABACCESS"
	storeSecret      = "lab-secret-3b1f9c5d7a2e4f60"
	storeCredentials = "/root/s3-credentials"
	// storeLog prints what the last run of the timer's service said.
	storeLog = "journalctl --no-pager -u etcd-snapshot.service _SYSTEMD_INVOCATION_ID=" +
		"$(systemctl show --property=InvocationID --value etcd-snapshot.service)"
	// findSecret lists the files that have the secret key, and says whether a log or a process has it.
	findSecret = `grep -rlF "$secret" /etc /root /opt /run /tmp /usr/local /var --exclude-dir=journal || true
! journalctl --no-pager | grep -qF "$secret" || echo journal
for process in /proc/[0-9]*; do
  [ "$process" = "/proc/$$" ] || ! grep -qaF "$secret" "$process/cmdline" 2>/dev/null || echo "command line of $process"
done`
)

// storeRig is a member on one machine, and an S3 server on another.
type storeRig struct {
	*rig
	spec     Spec
	identity *age.X25519Identity
}

// TestStoreOnMachines uploads the snapshots of a member's timer to an S3 server on another machine,
// fetches one, and opens it.
func TestStoreOnMachines(t *testing.T) {
	testrun.Long(t)
	if os.Getenv(withinLab) == "" {
		if _, err := build.Set(t.Context(), "versitygw"); err != nil {
			testrun.Missing(t, "versitygw cannot be built: ", err)
		}
		programs(t) // downloads what is missing; the lab has no network
	}
	onLab(t, lab.Config{
		Name: "etcdstore", Subnet: netip.MustParsePrefix("10.77.0.0/24"), Machines: []string{"cp1", "store"},
	}, []string{newRelease}, testStoreOnMachines)
}

func testStoreOnMachines(t *testing.T) {
	r := newStoreRig(t)
	r.refuseCredentials()
	r.only([]string{"cp1"}, "create", r.create)
	r.timerSends()
	r.fetch()
	r.restoredByTwo()
	r.storeFails()
	r.driftOfStore()
	r.newVersion()
	r.noSecretElsewhere()
	r.withoutStore()
	r.only([]string{"cp1"}, "destroy", r.delete)
	if left := r.sh("cp1", "ls -d /opt/kube /etc/etcd 2>/dev/null || true"); left != "" {
		t.Errorf("there is still %s", left)
	}
}

// newStoreRig starts the S3 server and describes the member.
func newStoreRig(t *testing.T) *storeRig {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	r := &storeRig{rig: newRig(t), identity: identity}
	server := r.startServer()
	s := r.specs["cp1"]
	s.Peers = map[string]*host.Host{"cp1": s.Host}
	s.Source, s.StoreVersion = host.Source{Directory: programs(t)}, "0.0.1"
	s.Snapshots = &snapshot.Settings{Schedule: never, Kept: 2, S3: &snapshot.S3{
		Endpoint: server.Endpoint, Bucket: server.Bucket, Prefix: "etcd/lab",
		CredentialsFile: storeCredentials, CACertificate: server.Certificate, Kept: 2,
		Recipients: []string{identity.Recipient().String()},
	}}
	r.specs["cp1"], r.spec = s, s
	return r
}

// programs returns an artifact source with etcd, and kube-snapshot-store as two versions.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := os.Symlink(filepath.Join(components(), "etcd-v"+newRelease), filepath.Join(dir, "etcd-v"+newRelease))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"0.0.1", "0.0.2"} {
		path := filepath.Join(dir, snapshot.StoreProduct+"-v"+version, snapshot.StoreProduct)
		if err := build.SnapshotStore(t.Context(), version, path); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startServer runs versitygw on a machine, and returns its endpoint and certificate.
func (r *storeRig) startServer() services.S3 {
	r.t.Helper()
	program, err := build.Set(r.t.Context(), "versitygw")
	if err != nil {
		r.t.Fatal(err)
	}
	server, err := services.StartS3(r.t.Context(), r.lab.Machine("store"), program,
		services.S3{Bucket: "backups", AccessKey: storeAccess, SecretKey: storeSecret})
	if err != nil {
		r.t.Fatal(err)
	}
	return server
}

// credentials writes the credentials to the member's machine.
func (r *storeRig) credentials(mode, secret string) {
	r.t.Helper()
	r.sh("cp1", "umask 077; printf '[default]\\naws_access_key_id = %s\\naws_secret_access_key = %s\\n' "+storeAccess+
		" "+secret+" >"+storeCredentials+"; chmod "+mode+" "+storeCredentials)
}

// refuseCredentials creates no member without credentials that only root can read.
func (r *storeRig) refuseCredentials() {
	r.t.Helper()
	etcdtest.WantError(r.t, "no credentials", r.create(r.t.Context(), r.spec),
		storeCredentials+" of snapshots does not exist")
	r.credentials("0644", storeSecret)
	etcdtest.WantError(r.t, "open credentials", r.create(r.t.Context(), r.spec), "is open to other users")
	r.credentials("0600", storeSecret)
}

// run starts what the timer starts, and returns the result and the log.
func (r *storeRig) run() (result, log string) {
	r.t.Helper()
	// A name has the resolution of a second: a second run in the same one replaces the snapshot.
	return strings.TrimSpace(r.sh("cp1", "sleep 1; "+startSnapshot)), r.sh("cp1", storeLog)
}

// timerSends waits until the timer itself has sent a snapshot.
func (r *storeRig) timerSends() {
	r.t.Helper()
	s := r.spec
	often := *s.Snapshots
	often.Schedule = "*:*:00/10"
	s.Snapshots = &often
	r.specs["cp1"] = s
	r.only([]string{"cp1"}, "schedule often", r.update)
	r.sh("cp1", "for i in $(seq 600); do ls /var/lib/etcd-archive/scheduled/*.sent >/dev/null 2>&1 && exit; sleep 0.1; "+
		"done; exit 1")
	r.specs["cp1"] = r.spec
	r.only([]string{"cp1"}, "schedule never", r.update)
	log := r.sh("cp1", "journalctl --no-pager -u etcd-snapshot.service")
	if !strings.Contains(log, "is in the bucket backups") {
		r.t.Errorf("the log is\n%s", log)
	}
	if objects := r.sh("store", "cd /srv/objects/backups; find . -type f; grep -rlaF etcd-archive . || true; "+
		"head -c 21 $(find . -name '*.age')"); !strings.Contains(objects,
		"/etcd/lab/"+r.spec.Bundle.ClusterID+"/") || !strings.Contains(objects, "age-encryption.org/v1") {
		r.t.Errorf("the server has\n%s", objects)
	}
	if got, err := r.clusters.Import(r.t.Context(), r.spec.Host); err != nil ||
		!reflect.DeepEqual(got.Snapshots, r.spec.Snapshots) {
		r.t.Errorf("imported as %+v, %v", got.Snapshots, err)
	}
	_, observed := r.clusters.Review(r.t.Context(), r.spec.Peers, r.spec.Bundle)
	if len(observed) != 1 || observed[0].Scheduled == nil || !observed[0].Scheduled.Uploads ||
		observed[0].Scheduled.Sent.IsZero() {
		r.t.Errorf("review: %+v", observed)
	}
}

// fetch fetches the newest snapshot, as a restore does, and has etcd's own tool check it.
func (r *storeRig) fetch() {
	r.t.Helper()
	if result, log := r.run(); result != "success" {
		r.t.Fatalf("the service ended with %s:\n%s", result, log)
	}
	out := r.sh("cp1", "cd /root; printf '%s\\n' "+r.identity.String()+" | "+r.program("0.0.1")+
		" get --newest -identity - -out restored.db; stat -c %a restored.db\n"+
		"newest=$(ls /var/lib/etcd-archive/scheduled/*.db | tail -n 1); cmp restored.db $newest && echo the same\n"+
		"/opt/kube/etcd/"+newRelease+"/etcdutl snapshot status restored.db --write-out=json; rm restored.db")
	for _, want := range []string{"-cp1.db is in restored.db: ", "\n600\n", "the same", `"totalKey"`} {
		if !strings.Contains(out, want) {
			r.t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	out, err := r.lab.Machine("cp1").Run(r.t.Context(), r.program("0.0.1")+" get --newest -out /root/x.db 2>&1")
	if err == nil || !strings.Contains(out+err.Error(), "is encrypted") {
		r.t.Errorf("without an identity: %v\n%s", err, out)
	}
}

// restoredByTwo loses the member, and restores it from the bucket by two processes at once: one fetches the snapshot.
// Before that, a process whose proxy does not answer restores nothing.
func (r *storeRig) restoredByTwo() {
	r.t.Helper()
	r.ctl("cp1", "put /registry/pods/a saved")
	if result, log := r.run(); result != "success" {
		r.t.Fatalf("the service ended with %s:\n%s", result, log)
	}
	r.ctl("cp1", "put /registry/pods/a later")
	r.lose("cp1")
	file := filepath.Join(r.t.TempDir(), "identity")
	if err := os.WriteFile(file, []byte(r.identity.String()+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	restore := func(settings snapshot.Settings) (Status, error) {
		p := newProcess(r.t, r.lab, r.spec.Bundle)
		s := r.spec
		s.Host, s.Snapshots = p.specs["cp1"].Host, &settings
		s.Peers = map[string]*host.Host{"cp1": s.Host}
		s.Restore = &machine.Restore{
			ID: "lost", Bucket: machine.NewestInBucket, IdentityFile: file, Bump: machine.BumpAutomatically,
		}
		return p.clusters.Update(r.t.Context(), s)
	}
	r.sh("cp1", "echo HTTPS_PROXY=http://127.0.0.1:1 >/root/proxy.env")
	proxied := *r.spec.Snapshots
	proxied.EnvironmentFile = "/root/proxy.env"
	if _, err := restore(proxied); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		r.t.Errorf("with a proxy that does not answer: %v", err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if status, err := restore(*r.spec.Snapshots); err != nil || !status.Healthy || len(status.Drift) > 0 {
				r.t.Errorf("restored as %+v, %v", status, err)
			}
		})
	}
	both.Wait()
	r.process()
	if got := strings.TrimSpace(r.ctl("cp1", "get /registry/pods/a --print-value-only")); got != "saved" {
		r.t.Errorf("it has %q", got)
	}
	fetches := r.sh("cp1", "journalctl --no-pager -u etcd-restore-fetch.service | "+
		"grep -c 'Started etcd-restore-fetch' || true; ls -d /var/lib/etcd-archive/restoring* 2>/dev/null || true")
	if strings.TrimSpace(fetches) != "2" { // one of them through the proxy
		r.t.Errorf("fetched, and left: %s", fetches)
	}
}

// program returns the command that runs the program on the member's machine.
func (r *storeRig) program(version string) string {
	return "/opt/kube/kube-snapshot-store/" + version + "/kube-snapshot-store -config " + snapshot.StorePath
}

// storeFails shows what a wrong key and a server that is down look like, and that the next run sends.
func (r *storeRig) storeFails() {
	r.t.Helper()
	r.credentials("0600", "another-secret-key")
	if result, log := r.run(); result != "exit-code" ||
		!strings.Contains(log, "rejects the credentials (SignatureDoesNotMatch)") {
		r.t.Errorf("with a wrong key: %s\n%s", result, log)
	}
	r.credentials("0600", storeSecret)
	r.sh("store", "systemctl kill --signal=STOP s3")
	time.AfterFunc(10*time.Second, func() {
		_, _ = r.lab.Machine("store").Run(r.t.Context(), "systemctl kill --signal=CONT s3")
	})
	if result, log := r.run(); result != "success" || strings.Count(log, "was uploaded") != 2 {
		r.t.Errorf("with a server that hung: %s\n%s", result, log)
	}
	health := r.clusters.Health(r.t.Context(), r.spec.Peers, r.spec.Bundle)
	if m := health.Machines[0]; m.SnapshotFailed != "" {
		r.t.Errorf("the last run failed: %q", m.SnapshotFailed)
	}
	if list := r.sh("cp1", r.program("0.0.1")+" list"); strings.Count(list, "verified") != 2 {
		r.t.Errorf("two are kept, but the store has\n%s", list)
	}
}

// driftOfStore repairs what was changed by hand.
func (r *storeRig) driftOfStore() {
	r.t.Helper()
	r.sh("cp1", "rm -r /opt/kube/kube-snapshot-store; mkdir -p /opt/kube/kube-snapshot-store/0.0.0; "+
		"sed -i 's/backups/other/' "+snapshot.StorePath)
	status, err := r.clusters.Read(r.t.Context(), r.spec)
	words := strings.Join(status.Drift, "\n")
	for _, want := range []string{
		"/opt/kube/kube-snapshot-store/0.0.1/kube-snapshot-store is missing",
		"kube-snapshot-store 0.0.0 is installed, and nothing uses it",
		snapshot.StorePath + " was edited manually",
	} {
		if err != nil || !strings.Contains(words, want) {
			r.t.Errorf("drift lacks %q:\n%s (%v)", want, words, err)
		}
	}
	r.unrestartedMember(func() { r.only([]string{"cp1"}, "repair", r.update) })
	r.only([]string{"cp1"}, "read", r.same)
}

// unrestartedMember runs f, which must not restart etcd.
func (r *storeRig) unrestartedMember(f func()) {
	r.t.Helper()
	const process = "systemctl show --property=MainPID --value etcd"
	before := r.sh("cp1", process)
	f()
	if after := r.sh("cp1", process); after != before {
		r.t.Errorf("etcd was restarted: %s, before %s", after, before)
	}
}

// newVersion updates the program with the provider, and removes the former one.
func (r *storeRig) newVersion() {
	r.t.Helper()
	r.spec.StoreVersion = "0.0.2"
	r.specs["cp1"] = r.spec
	r.unrestartedMember(func() { r.only([]string{"cp1"}, "update the program", r.update) })
	r.only([]string{"cp1"}, "read", r.same)
	got := strings.TrimSpace(r.sh("cp1", "ls /opt/kube/kube-snapshot-store; "+r.program("0.0.2")+" version"))
	if got != "0.0.2\n0.0.2" {
		r.t.Errorf("there is %q", got)
	}
	if result, log := r.run(); result != "success" {
		r.t.Errorf("the service ended with %s:\n%s", result, log)
	}
}

// noSecretElsewhere looks for the secret key and for the identity on the machine.
func (r *storeRig) noSecretElsewhere() {
	r.t.Helper()
	for secret, want := range map[string]string{storeSecret: storeCredentials, r.identity.String(): ""} {
		// The shell that searches has the secret on its own command line, and leaves itself out.
		places := strings.TrimSpace(r.sh("cp1", "read -r secret <<'E'\n"+secret+"\nE\n"+findSecret))
		if places != want {
			r.t.Errorf("a secret is in %q, want %q", places, want)
		}
	}
}

// withoutStore removes the program and its configuration with the setting.
func (r *storeRig) withoutStore() {
	r.t.Helper()
	r.spec.Snapshots = &snapshot.Settings{Schedule: never, Kept: 2}
	r.specs["cp1"] = r.spec
	r.unrestartedMember(func() { r.only([]string{"cp1"}, "no bucket", r.update) })
	r.only([]string{"cp1"}, "read", r.same)
	left := r.sh("cp1", "ls -d /opt/kube/kube-snapshot-store "+snapshot.StorePath+" 2>/dev/null; ls "+storeCredentials)
	if left != storeCredentials+"\n" {
		r.t.Errorf("there is still %s", left)
	}
	if result, log := r.run(); result != "success" {
		r.t.Errorf("the service ended with %s:\n%s", result, log)
	}
}
