package etcd

import (
	"context"
	_ "embed"
	"maps"
	"net"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// machine is what the algorithms of this package need of a machine. It is an
// interface so that tests can run real etcd servers in their own process in
// the place of systemd units: the membership algorithms, not SSH, are what is
// hard here, and they have to be tried against the real server.
type machine interface {
	host.LeaseTaker
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
	Member  string // whose archive the data becomes
	Wipe    bool   // it becomes none
	Tools   string // the directory of etcdctl and etcdutl, for snapshot and inspect

	Timer timerVerb // what happens to the timer of scheduled snapshots

	// Of a snapshot.
	Archive string // the directory that it is saved in
	File    string // its name
	Address string // of the member

	Keep int // that many archives, or files of such a name, stay, the newest; 0 of the files: all
}

// sshMachine is a machine reached over SSH.
type sshMachine struct{ *host.Host }

func (m sshMachine) Change(ctx context.Context, c host.Change, a action) (host.Applied, error) {
	c.Script, c.Vars = a.script(), a.vars()
	return m.Apply(ctx, c)
}

// script is the action for sh -eu, on the values of vars. Every one may be repeated.
func (a action) script() host.Script { return a.verbScript() + a.Timer.script() }

func (a action) verbScript() host.Script {
	switch a.Verb {
	case doStart:
		// Stopping first and waiting for that means that whoever answers
		// afterwards is the new process. Starting is not waited for: a member
		// of a new cluster is only ready together with the others.
		return "systemctl stop " + unitName + "\nsystemctl start --no-block " + unitName + "\n"
	case doRetire:
		return stopTimerScript + a.stopScript() + a.dataScript() + host.Discard(envPath, recordPath)
	case doClear:
		return stopTimerScript + a.stopScript() + a.dataScript() + clearScript()
	case doStop:
		return "systemctl stop " + unitName + "\n"
	case doInspect:
		return inspectScript
	case doSnapshot:
		return a.snapshotScript()
	}
	return ""
}

var (
	//go:embed save.sh
	saveScript host.Script
	//go:embed prune.sh
	pruneScript host.Script
	//go:embed inspect.sh
	inspectScript host.Script
)

// vars are what the action's script works on.
func (a action) vars() map[string]string {
	switch a.Verb {
	case doRetire, doClear:
		return archiveVars(a.DataDir, a.Member, a.Keep)
	case doInspect:
		return map[string]string{"data": a.DataDir, "tools": a.Tools}
	case doSnapshot:
		vars := archiveVars(a.DataDir, a.Member, a.Keep)
		maps.Copy(vars, map[string]string{
			"tools": a.Tools, "endpoint": membership.ClientURL(a.Address), "pki": pkiDir, "dir": a.Archive, "file": a.File, "keep": strconv.Itoa(a.Keep),
		})
		return vars
	}
	return nil
}

// snapshotScript saves a verified snapshot; only then may older ones go. It
// prints the size and what "etcdutl snapshot status" says.
func (a action) snapshotScript() host.Script {
	if a.Keep == 0 {
		return a.settleScript() + saveScript
	}
	return saveScript + pruneScript
}

// stopScript stops the unit and prevents its start at boot. A unit that is not
// there is as good as stopped; one that does not stop fails the script.
func (a action) stopScript() host.Script {
	return `if [ "$(systemctl show --property=LoadState --value ` + unitName + `)" != not-found ]; then
  systemctl disable --quiet ` + unitName + ` 2>/dev/null || true
  systemctl stop ` + unitName + `
  systemctl reset-failed ` + unitName + ` 2>/dev/null || true
fi
`
}

// clearScript removes what Create has put there. Directories go only when
// nobody else has something in them, and the user when no process is left. The
// marker goes last: as long as it is there, a cut-off removal is seen as such.
func clearScript() host.Script {
	files := []string{unitPath, unitLink.Path, caPath}
	for _, leaf := range []string{"server", "peer", "healthcheck-client"} {
		files = append(files, pkiDir+"/"+leaf+".crt", pkiDir+"/"+leaf+".key")
	}
	return clearTimerScript() + host.Discard(files...) + `rm -rf ` + dropInDir + `
rmdir -p ` + pkiDir + ` 2>/dev/null || true
rm -rf /opt/kube/` + product + `
rmdir /opt/kube 2>/dev/null || true
systemctl daemon-reload
if getent passwd ` + user + ` >/dev/null; then userdel ` + user + ` 2>/dev/null || true; fi
if getent group ` + user + ` >/dev/null; then groupdel ` + user + ` 2>/dev/null || true; fi
rm -rf ` + configDir + `
`
}
