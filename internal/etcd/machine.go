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

// machine is what the algorithms of this package need of a machine. It is an interface so
// that tests can run real etcd servers in their own process instead of systemd units: the
// membership algorithms, not SSH, are the difficult part, and they must be tested against
// the real server.
type machine interface {
	host.LeaseTaker
	Observe(ctx context.Context, q host.Query) (host.Facts, error)
	Install(ctx context.Context, src host.Source, artifacts []host.Artifact) ([]host.Artifact, error)
	// Change applies c and then runs a, in one round trip.
	Change(ctx context.Context, c host.Change, a action) (host.Applied, error)
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	UnitLog(ctx context.Context, unit string, lines int) (string, error)
}

// verb is what happens to the unit and the data after a change of files.
type verb int

const (
	doNothing  verb = iota
	doStart         // (re)start with the current files, without waiting for readiness
	doRetire        // stop, and archive or wipe the data
	doClear         // stop, archive or wipe the data, and remove everything else of the member
	doStop          // stop, until the next start
	doInspect       // fail if the data contains what etcd 3.6 does not accept
	doSnapshot      // save a verified snapshot of the serving member as File in Archive
)

// action is a verb with its parameters.
type action struct {
	Verb    verb
	DataDir string
	Member  string // the member that the archive belongs to
	Wipe    bool   // remove the data instead of archiving it
	Tools   string // the directory of etcdctl and etcdutl, for snapshot and inspect

	Timer timerVerb // what happens to the timer of scheduled snapshots

	// For a snapshot:
	Archive string // the directory to save it in
	File    string // its file name
	Address string // of the member

	Keep int // the number of newest archives, or files of that name, to keep; 0 for files: all
}

// sshMachine is a machine reached over SSH.
type sshMachine struct{ *host.Host }

func (m sshMachine) Change(ctx context.Context, c host.Change, a action) (host.Applied, error) {
	c.Script, c.Vars = a.script(), a.vars()
	return m.Apply(ctx, c)
}

// script returns the action as a script for sh -eu, with the variables of vars. Every
// action may be repeated.
func (a action) script() host.Script { return a.verbScript() + a.Timer.script() }

func (a action) verbScript() host.Script {
	switch a.Verb {
	case doStart:
		// The unit is stopped first, and the script waits for that, so a process that
		// answers afterwards is the new one. The script does not wait for the start: a
		// member of a new cluster is only ready together with the others.
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

// vars returns the variables of the action's script.
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

// snapshotScript saves a verified snapshot. Only then may older ones be deleted. It prints
// the size and the output of "etcdutl snapshot status".
func (a action) snapshotScript() host.Script {
	if a.Keep == 0 {
		return a.settleScript() + saveScript
	}
	return saveScript + pruneScript
}

// stopScript stops the unit and prevents its start at boot. A missing unit counts as
// stopped; a unit that does not stop fails the script.
func (a action) stopScript() host.Script {
	return `if [ "$(systemctl show --property=LoadState --value ` + unitName + `)" != not-found ]; then
  systemctl disable --quiet ` + unitName + ` 2>/dev/null || true
  systemctl stop ` + unitName + `
  systemctl reset-failed ` + unitName + ` 2>/dev/null || true
fi
`
}

// clearScript removes what Create has installed. It removes directories only if they
// contain nothing else, and the user only if it has no processes left. The record is
// removed last: as long as it exists, an interrupted removal is recognized.
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
