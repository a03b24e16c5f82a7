package machine

import (
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/liveness"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// liveURL is the URL of the probe on the listener for metrics, which needs no certificate. It is
// a serializable read: without quorum it succeeds, and a restart would not help.
const liveURL = release.MetricsURL + "/livez"

// livenessName is the name of the probe's units.
const livenessName = "etcd-liveness"

// LivenessTimer is the timer that probes a member.
const LivenessTimer = livenessName + ".timer"

// LivenessTimerPath is the file that shows that a member is probed.
var LivenessTimerPath = noProbe.Job().TimerPath()

// noProbe is the probe of a machine that has none.
var noProbe = liveness.Probe{Name: livenessName, Script: layout.ConfigDir + "/liveness.sh"}

// liveness returns the probe of the member.
func (s Spec) liveness() liveness.Probe {
	if !s.LivenessProbe {
		return noProbe
	}
	p := noProbe
	p.Wanted, p.DataDir, p.Own = true, s.Directory(), s.ClientURL()
	p.CA, p.Cert, p.Key = layout.CAPath, layout.PKIDir+"/healthcheck-client.crt", layout.PKIDir+"/healthcheck-client.key"
	p.Components = []liveness.Component{
		{Unit: layout.Unit, Ready: liveURL, Live: liveURL, Rule: liveness.MemberRule},
	}
	return p
}

// jobs returns what timers start on the member's machine.
func (s Spec) jobs() []timer.Job {
	return []timer.Job{s.SnapshotMember().Job(), s.liveness().Job(), s.facts().Job()}
}

// repairTimers returns what brings the timers of a machine to s, and the commands that follow.
func (s Spec) repairTimers(facts host.Facts) (files []host.File, remove []string, timers host.Script) {
	files, remove, timers = timer.Repair(s.jobs(), facts)
	if m := s.SnapshotMember(); len(m.LeftPrograms(facts)) > 0 {
		timers += m.RemovePrograms()
	}
	stale, forget := s.facts().Forget(facts.Files)
	return files, append(remove, stale...), timers + forget
}

// noJobs identifies all that timers may start on the machine of a member.
func noJobs() []timer.Job { return []timer.Job{snapshot.Member{}.Job(), noProbe.Job(), noFacts.Job()} }

// stopTimers stops what probes the member, saves its snapshots or writes facts about it, before it is
// stopped.
func stopTimers() host.Script { return timer.Stop(noJobs()) + noFacts.ForgetScript() }

// clearTimers removes the units of the timers. The rest is in the directory of the member's
// settings.
func clearTimers() host.Script { return timer.Clear(noJobs()) }
