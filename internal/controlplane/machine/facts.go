package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// noFacts is the writer of facts of a machine that has none.
var noFacts = textfile.Writer{
	Resource: "kube_control_plane_replica", Name: "kube-facts", Script: component.KubernetesDir + "/facts.sh",
	Period: 30 * time.Second,
}

// FactsPaths are the files that show where facts are written.
var FactsPaths = []string{noFacts.Script, noFacts.Job().TimerPath()}

// TextfileDirectoryIn returns the directory to which a machine writes facts; "" if it writes none.
func TextfileDirectoryIn(files map[string]host.FileState) string { return noFacts.DirectoryIn(files) }

// Facts returns the writer of the facts of s.
func Facts(s component.Replica) textfile.Writer {
	w := noFacts
	w.Directory = s.TextfileDirectory
	if w.Directory == "" {
		return w
	}
	for _, c := range component.Of(s) {
		program := textfile.Program{Name: c.Name}
		if by := runtime.Of(s); by.OnMachine() {
			program.Unit = by.Unit(c.Name)
		}
		w.Programs = append(w.Programs, program)
	}
	w.Certificates = append(w.Certificates, textfile.Certificate{File: component.CACert})
	for _, c := range component.Certificates(s) {
		certificate := textfile.Certificate{File: c.Path}
		if c.Path == component.APIServerCert {
			certificate.At = s.ServingAddress()
		}
		w.Certificates = append(w.Certificates, certificate)
	}
	for _, k := range component.Kubeconfigs(s) {
		w.Certificates = append(w.Certificates, textfile.Certificate{File: k.Path})
	}
	w.Record, w.Addresses = RecordPath, s.HeldAddresses
	for _, address := range slices.Sorted(maps.Keys(s.AnnouncedAddresses)) {
		w.Announced = append(w.Announced, textfile.Announced{Address: address, By: s.AnnouncedAddresses[address]})
	}
	return w
}

// Jobs returns what timers start on the machine of s.
func Jobs(s component.Replica) []timer.Job { return []timer.Job{Liveness(s).Job(), Facts(s).Job()} }

// noJobs identifies all that timers may start on the machine of a replica.
func noJobs() []timer.Job { return []timer.Job{noProbe.Job(), noFacts.Job()} }

// RepairTimers returns what brings the timers of a machine to s, and the commands that follow.
func RepairTimers(s component.Replica, facts host.Facts) (files []host.File, remove []string, timers host.Script) {
	files, remove, timers = timer.Repair(Jobs(s), facts)
	stale, forget := Facts(s).Forget(facts.Files)
	return files, append(remove, stale...), timers + forget
}

// stopTimers stops what probes the components, and what writes facts about them.
func stopTimers() host.Script { return timer.Stop(noJobs()) + noFacts.ForgetScript() }

// clearTimers removes what the timers start.
func clearTimers() host.Script {
	return timer.Clear(noJobs()) + host.Discard(noProbe.Script, noFacts.Script)
}
