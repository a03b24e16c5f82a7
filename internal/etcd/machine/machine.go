package machine

import (
	"context"
	_ "embed"
	"maps"
	"net"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Machine is what the algorithms of this package need of a machine. It is an interface so
// that tests can run real etcd servers in their own process instead of systemd units: the
// membership algorithms, not SSH, are the difficult part, and they must be tested against
// the real server.
type Machine interface {
	host.LeaseTaker
	Observe(ctx context.Context, q host.Query) (host.Facts, error)
	Install(ctx context.Context, src host.Source, artifacts []host.Artifact) ([]host.Artifact, error)
	// Change applies c and then runs a, in one round trip.
	Change(ctx context.Context, c host.Change, a Action) (host.Applied, error)
	// Run runs a command that changes the machine, and returns its standard output.
	Run(ctx context.Context, c host.Command) (string, error)
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	UnitLog(ctx context.Context, unit string, lines int) (string, error)
	// Barriers returns why what the member needs of the machine is not met: see barrier.Problems.
	Barriers(ctx context.Context, n barrier.Needs) ([]string, error)
	// Listen accepts connections at addresses of the machine: see connections.Listen.
	Listen(ctx context.Context, addresses []string) connections.Listener
}

// Verb is what happens to the unit and the data after a change of files.
type Verb int

// The verbs.
const (
	Nothing       Verb = iota
	Start              // (re)start with the current files, without waiting for readiness
	Retire             // stop, and archive or wipe the data
	Clear              // stop, archive or wipe the data, and remove everything else of the member
	Stop               // stop, until the next start
	Pause              // stop, until Resume
	Resume             // start what Pause has stopped, as it was
	Inspect            // fail if the data contains what etcd 3.6 does not accept
	SaveSnapshot       // save a verified snapshot of the serving member: Save
	PlaceRestored      // make restored data the member's
	Leave              // stop for good, and unmount the volume: the member goes to another machine
	LeaveRuntime       // stop for good, and remove the definition: the member is to be run by something else
)

// Action is a verb with its parameters.
type Action struct {
	Verb    Verb
	DataDir string
	Member  string // the member that the archive belongs to
	Wipe    bool   // remove the data instead of archiving it
	Tools   string // the directory of etcdutl, for inspect

	Timers host.Script   // what follows for the member's timers
	Save   snapshot.Save // of SaveSnapshot

	Remount bool        // of Start: mount the volume again before
	Returns bool        // of Start: with the manifest that kubeadm has written
	Volume  host.Script // of Clear and Leave: what happens to the volume when nothing uses it any more
	// KeepRecord of Clear: the record stays until RemoveNode. A removal that was cut off is recognized by it. Of Retire:
	// the record stays until RetireForRestore replaces it.
	KeepRecord bool
	Stage      host.Script // of Leave: what is written to the volume before the member stops

	Keep int // the number of newest archives to keep
}

// SSH is a machine reached over SSH.
type SSH struct{ *host.Host }

// Barriers asks firewalld and SELinux.
func (m SSH) Barriers(ctx context.Context, n barrier.Needs) ([]string, error) {
	return barrier.Problems(ctx, m.Host, n)
}

// Listen accepts connections at addresses of the machine.
func (m SSH) Listen(ctx context.Context, addresses []string) connections.Listener {
	return connections.Listen(ctx, m.Host, addresses)
}

// Change applies c and runs a.
func (m SSH) Change(ctx context.Context, c host.Change, a Action) (host.Applied, error) {
	c.Script, c.Vars = a.script(), a.vars()
	if slices.Contains(c.Remove, layout.EnvPath) {
		c.Script += runtimeFunctions() + "member_guard\n" // from now on it must not start without its data
	}
	return m.Apply(ctx, c)
}

// script returns the action as a script for sh -eu, with the variables of vars. Every
// action may be repeated.
func (a Action) script() host.Script { return a.verbScript() + a.Timers }

func (a Action) verbScript() host.Script {
	switch a.Verb {
	case Start:
		// The unit is stopped first, and the script waits for that, so a process that
		// answers afterwards is the new one. The script does not wait for the start: a
		// member of a new cluster is only ready together with the others.
		var end, remount host.Script
		if a.Remount {
			end = a.endDrill()
			remount = "systemctl stop " + volume.Unit + "\n" + volume.ScriptPath + " unmount\nsystemctl start " +
				volume.Unit + "\n"
		}
		if a.Returns {
			return end + runtimeFunctions() + "member_stop\n" + remount + "member_return\n"
		}
		return end + runtimeFunctions() + "member_stop\n" + remount + "member_start\n"
	case Retire:
		gone := []string{layout.EnvPath}
		if !a.KeepRecord {
			gone = append(gone, layout.RecordPath)
		}
		return stopTimers() + a.stopScript() + a.dataScript() + host.Discard(gone...) + host.Flush(a.removedFrom()...)
	case Clear:
		forget := forgetScript()
		if a.KeepRecord {
			forget = keepRecordScript
		}
		return a.endDrill() + stopTimers() + a.stopScript() + a.dataScript() + dropAllScript + a.Volume + clearScript() +
			forget + host.Flush(a.removedFrom()...)
	case Leave:
		return a.endDrill() + a.Stage + stopTimers() + a.stopScript() + a.Volume
	case LeaveRuntime:
		return runtimeFunctions() + "member_leave\n"
	case Stop:
		return runtimeFunctions() + "member_stop\n"
	case Pause:
		return runtimeFunctions() + "member_pause\n"
	case Resume:
		return runtimeFunctions() + "member_resume\n"
	case Inspect:
		return ArchiveFunctions + inspectScript
	case SaveSnapshot:
		return a.settleScript() + a.Save.Script()
	case PlaceRestored:
		return ArchiveFunctions + placeScript
	}
	return ""
}

// removedFrom lists the directories and files that Retire and Clear change. If one is gone, the
// directory above it is flushed. Otherwise a power cut could bring back a member that the
// cluster has removed.
func (a Action) removedFrom() []string {
	return []string{
		a.DataDir, path.Dir(a.DataDir), layout.ConfigDir, layout.PKIDir, "/opt/kube/" + layout.Product,
		"/opt/kube/" + snapshot.StoreProduct,
		path.Dir(layout.UnitPath), path.Dir(UnitLink.Path), timer.WantsDir.Path, staticpod.Directory,
		"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc",
	}
}

//go:embed inspect.sh
var inspectScript host.Script

// vars returns the variables of the action's script.
func (a Action) vars() map[string]string {
	switch a.Verb {
	case Retire, Clear, PlaceRestored:
		return archiveVars(a.DataDir, a.Member, a.Keep)
	case Inspect:
		vars := archiveVars(a.DataDir, a.Member, a.Keep)
		vars["tools"] = a.Tools
		return vars
	case SaveSnapshot:
		vars := archiveVars(a.DataDir, a.Member, a.Keep)
		maps.Copy(vars, a.Save.Vars())
		return vars
	}
	return nil
}

// stopScript stops the member and prevents its start at boot. A missing unit counts as
// stopped; a unit or pod that does not stop fails the script.
func (a Action) stopScript() host.Script {
	return runtimeFunctions() + "member_stop_for_good\n"
}

// leafFiles lists the certificates and keys of a member.
func leafFiles() []string {
	var files []string
	for _, leaf := range []string{"server", "peer", "healthcheck-client"} {
		files = append(files, layout.PKIDir+"/"+leaf+".crt", layout.PKIDir+"/"+leaf+".key")
	}
	return files
}

// clearScript removes what Create has installed. It removes directories only if they
// contain nothing else, and the user only if Create has created it and it has no processes left. The record stays until
// forgetScript: as long as it exists, an interrupted removal is recognized.
func clearScript() host.Script {
	files := append(leafFiles(), layout.UnitPath, UnitLink.Path, layout.CAPath, volume.UnitPath)
	return clearTimers() + host.Discard(files...) + `rm -rf ` + layout.DropInDir + `
rmdir -p ` + layout.PKIDir + ` 2>/dev/null || true
rm -rf /opt/kube/` + layout.Product + ` /opt/kube/` + snapshot.StoreProduct + `
rmdir /opt/kube 2>/dev/null || true
systemctl daemon-reload
{
` + host.RemoveUsers(layout.User) + `} 2>/dev/null || true
`
}

// forgetScript removes the record of a member, and the rest of its directory.
func forgetScript() host.Script { return "rm -rf " + layout.ConfigDir + "\n" }

// keepRecordScript removes the rest of the record's directory.
const keepRecordScript host.Script = "if [ -d " + layout.ConfigDir + " ]; then\n  find " + layout.ConfigDir +
	" -mindepth 1 ! -path " + layout.RecordPath + " -delete\nfi\n"
