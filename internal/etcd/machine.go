package etcd

import (
	"context"
	"fmt"
	"net"
	"path"

	"al.essio.dev/pkg/shellescape"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// machine is what the algorithms of this package need of a machine. It is an
// interface so that tests can run real etcd servers in their own process in
// the place of systemd units: the membership algorithms, not SSH, are what is
// hard here, and they have to be tried against the real server.
type machine interface {
	Address() string
	Observe(ctx context.Context, q host.Query) (host.Facts, error)
	Install(ctx context.Context, src host.Source, artifacts []host.Artifact) ([]host.Artifact, error)
	// Change makes c true and then does a, in one round trip.
	Change(ctx context.Context, c host.Change, a action) (host.Applied, error)
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	UnitLog(ctx context.Context, unit string, lines int) (string, error)
}

// verb is what happens to the unit and the data behind a change of files.
type verb int

const (
	doNothing  verb = iota
	doStart         // (re)start on the files as they are, without waiting for readiness
	doRetire        // stop, and put the data away
	doClear         // stop, put the data away, and remove everything else of the member
	doStop          // stop, until the next start
	doInspect       // fail when the data has what etcd 3.6 does not take
	doSnapshot      // save a verified snapshot of the serving member as File in Archive
)

// action is a verb with what it works on.
type action struct {
	Verb    verb
	DataDir string
	Archive string // where data is put; "" to wipe it
	Tools   string // the directory of etcdctl and etcdutl, for snapshot and inspect

	// Of a snapshot.
	File    string // its name
	Address string // of the member
	Keep    int    // that many files of such a name stay, the newest; 0: all
}

// sshMachine is a machine reached over SSH.
type sshMachine struct{ *host.Host }

func (m sshMachine) Change(ctx context.Context, c host.Change, a action) (host.Applied, error) {
	c.Script = a.script()
	return m.Apply(ctx, c)
}

// script renders the action for sh -eu. Every one may be repeated.
func (a action) script() string {
	switch a.Verb {
	case doStart:
		// Stopping first and waiting for that means that whoever answers
		// afterwards is the new process. Starting is not waited for: a member
		// of a new cluster is only ready together with the others.
		return "systemctl stop " + unitName + "\nsystemctl start --no-block " + unitName + "\n"
	case doRetire:
		return a.stopScript() + a.dataScript() + host.Discard(envPath, markerPath)
	case doClear:
		return a.stopScript() + a.dataScript() + clearScript()
	case doStop:
		return "systemctl stop " + unitName + "\n"
	case doInspect:
		return a.inspectScript()
	case doSnapshot:
		return a.snapshotScript()
	}
	return ""
}

// snapshotScript saves a snapshot under another name, verifies it and renames it
// into place; only then may older ones go. The server appends to the database
// its SHA-256 (etcd's maintenance API), which shows what was lost or altered on
// the way; "snapshot status" checks the database's own structure. It prints the
// size and that status.
func (a action) snapshotScript() string {
	return fmt.Sprintf(`umask 077
mkdir -p %[1]s
chmod 0700 %[7]s %[1]s
rm -f %[1]s/*.part
%[3]s/etcdctl --endpoints=%[4]s --cacert=%[5]s --cert=%[6]s/healthcheck-client.crt --key=%[6]s/healthcheck-client.key \
  --command-timeout=10m snapshot save %[1]s/%[2]s.part >/dev/null
cd %[1]s
size=$(stat -c %%s %[2]s.part)
digest=$(tail -c 32 %[2]s.part | od -An -v -tx1 | tr -d ' \n')
if [ "$digest" != "$(head -c $((size - 32)) %[2]s.part | sha256sum | cut -d ' ' -f 1)" ]; then
  rm -f %[2]s.part
  echo "the snapshot is damaged: its digest is not that of its content" >&2
  exit 1
fi
status=$(%[3]s/etcdutl snapshot status %[2]s.part --write-out=json) || { rm -f %[2]s.part; exit 1; }
sync %[2]s.part 2>/dev/null || sync
mv -fT %[2]s.part %[2]s
sync . 2>/dev/null || sync
printf 'size %%s\n%%s\n' "$size" "$status"
`, shellescape.Quote(a.Archive), a.File, shellescape.Quote(a.Tools), shellescape.Quote(ClientURL(a.Address)), caPath, pkiDir, shellescape.Quote(path.Dir(a.Archive))) + a.pruneScript()
}

// pruneScript removes all but the newest snapshots. The one that was just saved
// stays whatever the clock says.
func (a action) pruneScript() string {
	if a.Keep == 0 {
		return ""
	}
	return fmt.Sprintf(`ls -1 | grep '^[0-9]\{8\}T[0-9]\{6\}Z-.*\.db$' | grep -vxF %s | sort -r | tail -n +%d | while read -r old; do rm -f -- "$old"; done
`, a.File, a.Keep)
}

// stopScript stops the unit and prevents its start at boot. A unit that is not
// there is as good as stopped; one that does not stop fails the script.
func (a action) stopScript() string {
	return `if [ "$(systemctl show --property=LoadState --value ` + unitName + `)" != not-found ]; then
  systemctl disable --quiet ` + unitName + ` 2>/dev/null || true
  systemctl stop ` + unitName + `
  systemctl reset-failed ` + unitName + ` 2>/dev/null || true
fi
`
}

// dataScript puts the content of the data directory away. The directory itself
// may be a mount point, so it is emptied rather than moved.
func (a action) dataScript() string {
	dir := shellescape.Quote(a.DataDir)
	if a.Archive == "" {
		return fmt.Sprintf("if [ -d %[1]s ]; then find %[1]s -mindepth 1 -delete; rmdir %[1]s 2>/dev/null || true; fi\n", dir)
	}
	return fmt.Sprintf(`if [ -d %[1]s ] && [ -n "$(ls -A %[1]s)" ]; then
  (umask 077; mkdir -p %[2]s)
  chmod 0700 %[3]s %[2]s
  find %[1]s -mindepth 1 -maxdepth 1 -exec mv -t %[2]s {} +
  chown -R root:root %[2]s
fi
rmdir %[1]s 2>/dev/null || true
`, dir, shellescape.Quote(a.Archive), shellescape.Quote(archiveRoot(a.DataDir)))
}

// clearScript removes what Create has put there. Directories go only when
// nobody else has something in them, and the user when no process is left. The
// marker goes last: as long as it is there, a cut-off removal is seen as such.
func clearScript() string {
	files := []string{unitPath, bootLink.Path, caPath}
	for _, leaf := range []string{"server", "peer", "healthcheck-client"} {
		files = append(files, pkiDir+"/"+leaf+".crt", pkiDir+"/"+leaf+".key")
	}
	return host.Discard(files...) + `rm -rf ` + dropInDir + `
rmdir -p ` + pkiDir + ` 2>/dev/null || true
rm -rf /opt/kube/` + product + `
rmdir /opt/kube 2>/dev/null || true
systemctl daemon-reload
if getent passwd ` + user + ` >/dev/null; then userdel ` + user + ` 2>/dev/null || true; fi
if getent group ` + user + ` >/dev/null; then groupdel ` + user + ` 2>/dev/null || true; fi
rm -rf ` + configDir + `
`
}

// archiveRoot is the directory beside the data directory that archives are put in.
func archiveRoot(dataDir string) string { return dataDir + "-archive" }
