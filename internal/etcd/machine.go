package etcd

import (
	"context"
	"fmt"
	"net"

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
	doSnapshot      // save a snapshot of the serving member into Archive
)

// action is a verb with what it works on.
type action struct {
	Verb    verb
	DataDir string
	Archive string // where data is put; "" to wipe it
	Address string // of the member, for snapshot
	Ctl     string // path of etcdctl, for snapshot
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
	case doSnapshot:
		dir := shellescape.Quote(a.Archive)
		return fmt.Sprintf(`umask 077
mkdir -p %[1]s
if [ ! -s %[1]s/snapshot.db ]; then
  ETCDCTL_API=3 %[2]s --endpoints=%[3]s --cacert=%[4]s --cert=%[5]s/healthcheck-client.crt --key=%[5]s/healthcheck-client.key \
    --command-timeout=5m snapshot save %[1]s/snapshot.db >/dev/null
fi
`, dir, a.Ctl, shellescape.Quote(ClientURL(a.Address)), caPath, pkiDir)
	}
	return ""
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
