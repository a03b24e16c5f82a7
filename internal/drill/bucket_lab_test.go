package drill

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// storeVersion and gatewayVersion are what the programs are installed as.
const (
	storeVersion   = "0.0.1"
	gatewayVersion = "1.8.0"
)

// bucket drills with the newest snapshot in a bucket, which is encrypted.
func (st *stage) bucket() {
	st.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		st.Fatal(err)
	}
	st.startStore(identity.Recipient().String())
	st.run("cp /root/good.db /root/20260102T030405Z-cp1.db\n" + store + "put /root/20260102T030405Z-cp1.db")
	st.fails(Source{}, "is encrypted")
	r := st.succeeds(Source{Identity: identity.String() + "\n"})
	if r.Source != "bucket" || r.Snapshot != "20260102T030405Z-cp1.db" || r.Saved != 1767323045 {
		st.Errorf("the snapshot is %s from %s of %d", r.Snapshot, r.Source, r.Saved)
	}
	st.shrunk(Source{Identity: identity.String() + "\n"})
	st.hostileBucket(Source{Identity: identity.String() + "\n"})
	out, err := st.spec.Host.Run(st.ctx, host.Command{
		Stdin: strings.NewReader(identity.String()), Script: `read -r secret || true
grep -rlF "$secret" /etc /root /opt /run /tmp /var --exclude-dir=journal || true
! journalctl --no-pager | grep -qF "$secret" || echo journal
`,
	})
	if err != nil || out != "" {
		st.Errorf("the identity is in %s (%v)", out, err)
	}
	st.run("systemctl stop s3.service; rm " + snapshot.StorePath)
}

// shrunk drills with the newest snapshot of the etcd cluster that serves, which is much smaller than that of a former
// one: as after a restore and a defragmentation.
func (st *stage) shrunk(source Source) {
	st.Helper()
	id := strings.TrimSpace(st.run(`sed -n 's/^ *"etcd_cluster_id": "\([0-9a-f]*\)",*$/\1/p' ` + layout.RecordPath))
	own := "20260102T050405Z-cp1.etcd-" + id + ".db"
	st.run(`former=/root/20260102T040405Z-cp1.etcd-a1.db
head -c -32 /root/good.db >/root/large
truncate -s $(($(stat -c %s /root/large) * 5)) /root/large
{ cat /root/large; openssl dgst -sha256 -binary /root/large; } >"$former"
rm /root/large
own=/root/` + host.Script(own) + `
cp /root/good.db "$own"
` + store + `put "$former"
` + store + `put "$own"`)
	if r := st.succeeds(source); r.Snapshot != own {
		st.Errorf("after a restore and a defragmentation, the snapshot is %s, want %s", r.Snapshot, own)
	}
}

// store is the program that uploads and fetches.
const store host.Script = "/opt/kube/kube-snapshot-store/" + storeVersion + "/kube-snapshot-store -config " +
	snapshot.StorePath + " "

// startStore runs an S3 server on the machine, and installs what the member of a bucket has.
func (st *stage) startStore(recipient string) {
	st.Helper()
	gateway := host.Artifact{Product: "versitygw", Version: gatewayVersion, Name: "versitygw"}
	member := snapshot.Member{
		Name: "cp1", ClusterID: st.spec.Bundle.ClusterID, ClusterName: "lab", StoreVersion: storeVersion,
		Settings: &snapshot.Settings{Schedule: "hourly", Kept: 2, S3: &snapshot.S3{
			Endpoint: "http://127.0.0.1:7070", Bucket: "backups", Region: "us-east-1", CredentialsFile: "/root/s3",
			Recipients: []string{recipient}, Kept: 2,
		}},
	}
	programs := append(member.Artifacts(), gateway)
	if _, err := st.spec.Host.Install(st.ctx, host.Source{Directory: st.programs()}, programs); err != nil {
		st.Fatal(err)
	}
	for _, file := range member.Files() {
		if file.Path != snapshot.StorePath {
			continue
		}
		if _, err := st.spec.Host.Apply(st.ctx, host.Change{Files: []host.File{file}}); err != nil {
			st.Fatal(err)
		}
	}
	st.run(`umask 077
mkdir -p /srv/objects/backups /srv/attributes
printf 'ROOT_ACCESS_KEY=AKIALAB\nROOT_SECRET_KEY=lab-secret-3b1f9c5d\n' >/srv/env
printf '[default]\naws_access_key_id = AKIALAB\naws_secret_access_key = lab-secret-3b1f9c5d\n' >/root/s3
systemd-run --quiet --unit=s3 --property=EnvironmentFile=/srv/env ` + host.Words(gateway.Path()) + ` \
  --port 127.0.0.1:7070 --quiet posix --sidecar /srv/attributes /srv/objects
for i in $(seq 100); do ! curl --silent http://127.0.0.1:7070 >/dev/null || exit 0; sleep 0.1; done; exit 1`)
}

// programs returns an artifact source with kube-snapshot-store and the S3 server.
func (st *stage) programs() string {
	st.Helper()
	dir := st.TempDir()
	program, err := build.Set(st.ctx, "versitygw")
	if err != nil {
		st.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(program), filepath.Join(dir, "versitygw-v"+gatewayVersion)); err != nil {
		st.Fatal(err)
	}
	command := exec.CommandContext(st.ctx, "go", "build", "-trimpath", "-o",
		filepath.Join(dir, snapshot.StoreProduct+"-v"+storeVersion, snapshot.StoreProduct), ".")
	command.Dir = filepath.Join("..", "..", "tools", "snapshot-store")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off")
	if out, err := command.CombinedOutput(); err != nil {
		st.Fatalf("build kube-snapshot-store: %v\n%s", err, out)
	}
	return dir
}
