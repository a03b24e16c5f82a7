// Package timer puts a service that a systemd timer starts, with what it runs, on a machine:
// what is to be written and removed, and how the machine differs. It decides only; the caller
// observes and changes the machine.
package timer

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

const (
	unitDir  = "/etc/systemd/system"
	wantsDir = unitDir + "/timers.target.wants"
)

// Job is a timer, the service that it starts, and their files.
type Job struct {
	// Name is the name of both units, without their suffixes.
	Name string
	// Files are the two units and what they run. Without files, the job is not wanted.
	Files []host.File
	// Paths contains the files that any job of this name may have, in the order in which they
	// are removed: the units, which identify them as the provider's, come last.
	Paths []string
	// UserFiles are the files among them that have no header of the provider: commands of the user,
	// or a format without comments.
	UserFiles []string
}

// Timer returns the name of the timer.
func (j Job) Timer() string { return j.Name + ".timer" }

// Service returns the name of the service.
func (j Job) Service() string { return j.Name + ".service" }

// TimerPath returns the path of the timer's file.
func (j Job) TimerPath() string { return unitDir + "/" + j.Timer() }

// ServicePath returns the path of the service's file.
func (j Job) ServicePath() string { return unitDir + "/" + j.Service() }

// Link returns the link that "systemctl enable" creates.
func (j Job) Link() host.Link {
	return host.Link{Path: wantsDir + "/" + j.Timer(), Target: j.TimerPath()}
}

// WantsDir is the directory of the links of all jobs.
var WantsDir = host.Dir{Path: wantsDir, Mode: 0o755}

// Units returns the names of both units, for a query.
func (j Job) Units() []string { return []string{j.Timer(), j.Service()} }

func (j Job) wanted() bool { return len(j.Files) > 0 }

// Action is what happens to the timer after a change of files.
type Action int

// The actions on the timer.
const (
	Left Action = iota
	On          // it runs, with the current files
	Off         // the timer and what it started are stopped
)

// Script returns the commands of an action.
func (j Job) Script(a Action) host.Script {
	units := host.Words(j.Timer(), j.Service())
	switch a {
	case On:
		return "systemctl restart " + host.Words(j.Timer()) + "\n"
	case Off:
		// The stamp is where systemd stores when the timer last elapsed (Persistent=). A new
		// timer must not make up for the missed runs of an earlier one.
		return "systemctl stop " + units + " 2>/dev/null || true\n" +
			"systemctl reset-failed " + units + " 2>/dev/null || true\n" +
			"rm -f " + host.Words("/var/lib/systemd/timers/stamp-"+j.Timer()) + "\n"
	}
	return ""
}

// ifManaged restricts commands to the provider's units: others may have the same name.
func (j Job) ifManaged(commands host.Script) host.Script {
	return "if grep -qsxF '" + systemd.Managed + "' " + host.Words(j.TimerPath(), j.ServicePath()) + "; then\n" +
		commands + "fi\n"
}

// StopScript stops the job and prevents its start at boot.
func (j Job) StopScript() host.Script {
	return j.ifManaged("  systemctl disable --quiet " + host.Words(j.Timer()) + " 2>/dev/null || true\n" + j.Script(Off))
}

// ClearScript removes the units. What they run is in a directory that the caller removes.
func (j Job) ClearScript() host.Script {
	return j.ifManaged(host.Discard(j.Link().Path, j.ServicePath(), j.TimerPath()) + "rmdir " + host.Words(wantsDir) +
		" 2>/dev/null || true\n")
}

// Managed reports whether the provider wrote a file. Operators may have units of their own with
// the same name, which must not be changed.
func Managed(file host.FileState) bool { return strings.HasPrefix(file.Content, systemd.Managed) }

func (j Job) managed(files map[string]host.FileState, p string) bool {
	if !slices.Contains(j.UserFiles, p) {
		return Managed(files[p])
	}
	return slices.ContainsFunc(j.Paths, func(other string) bool {
		return !slices.Contains(j.UserFiles, other) && Managed(files[other])
	})
}

// leftovers returns the provider's files of the job that are not wanted.
func (j Job) leftovers(files map[string]host.FileState) []string {
	var over []string
	for _, p := range j.Paths {
		_, there := files[p]
		if there && j.managed(files, p) && !slices.ContainsFunc(j.Files, func(f host.File) bool { return f.Path == p }) {
			over = append(over, p)
		}
	}
	return over
}

// runs reports whether systemd has the timer in the desired state.
func runs(timer host.UnitState) bool {
	return timer.Load == "loaded" && timer.Active == "active" && timer.Enabled == "enabled" && !timer.NeedReload
}

// runsWithoutFile reports whether a timer runs whose file has been removed.
func runsWithoutFile(timer host.UnitState) bool {
	return timer.Load == "not-found" && timer.Active == "active"
}

// Repair returns the files that bring a machine to the job, those to remove, and what to do
// with the timer afterwards. Links and WantsDir are the caller's.
func (j Job) Repair(facts host.Facts) (host.Change, Action) {
	var change host.Change
	action := Left
	unit := facts.Units[j.Timer()]
	for _, file := range j.Files {
		have, ok := facts.Files[file.Path]
		unread := facts.Units[path.Base(file.Path)].NeedReload // a file in a change makes systemd reload its units
		if !ok || have.SHA256 != digest(file) || have.Mode.Perm() != file.Mode || have.Owner != "root" || unread {
			change.Files = append(change.Files, file)
			if file.Path == j.TimerPath() {
				action = On
			}
		}
	}
	if j.wanted() && !runs(unit) {
		action = On
	}
	over := j.leftovers(facts.Files)
	if len(over) == 0 && (j.wanted() || !runsWithoutFile(unit)) {
		return change, action
	}
	change.Remove = append(change.Remove, over...)
	if _, there := facts.Files[j.TimerPath()]; !j.wanted() && (!there || slices.Contains(over, j.TimerPath())) {
		change.Remove = append(change.Remove, j.Link().Path, wantsDir) // the directory only if it is empty
		action = Off
	}
	return change, action
}

func digest(file host.File) string { return fmt.Sprintf("%x", sha256.Sum256(file.Content)) }

// Foreign lists the files in the way that the provider did not write. changes reports whether
// any file of the job must be written.
func (j Job) Foreign(facts host.Facts) (problems []string, changes bool) {
	for _, file := range j.Files {
		have, ok := facts.Files[file.Path]
		changes = changes || have.SHA256 != digest(file)
		if ok && have.Content != "" && !j.managed(facts.Files, file.Path) {
			problems = append(problems, file.Path+" exists and was not written by the provider: move it away, "+
				"and a unit together with its other files")
		}
	}
	return problems, changes
}
