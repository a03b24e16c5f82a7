// Package snapshot saves and verifies snapshots of etcd on a member's machine: at once, or
// on a schedule by a systemd timer. It decides what is to be written and what differs; the
// caller observes and changes the machine.
package snapshot

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// TimerAction is what happens to the timer of scheduled snapshots after a change of files.
type TimerAction int

// The actions on the timer.
const (
	TimerLeft TimerAction = iota
	TimerOn               // it runs, with the current files
	TimerOff              // the timer and what it started are stopped
)

// stampPath is where systemd stores when the timer last elapsed (Persistent=). A new timer
// must not make up for the missed runs of an earlier one.
const stampPath = "/var/lib/systemd/timers/stamp-" + Timer

// Script returns the commands of the action.
func (v TimerAction) Script() host.Script {
	switch v {
	case TimerOn:
		return "systemctl restart " + Timer + "\n"
	case TimerOff:
		return "systemctl stop " + Timer + " " + Service + " 2>/dev/null || true\n" +
			"systemctl reset-failed " + Timer + " " + Service + " 2>/dev/null || true\n" +
			"rm -f " + stampPath + "\n"
	}
	return ""
}

// ifTimerIsProviders restricts commands to the provider's units: other units may have the
// same name.
func ifTimerIsProviders(commands host.Script) host.Script {
	return "if grep -qsxF '" + systemd.Managed + "' " + TimerPath + " " + ServicePath + "; then\n" + commands + "fi\n"
}

// StopScript stops scheduled snapshots before their member is stopped.
var StopScript = ifTimerIsProviders("  systemctl disable --quiet "+Timer+" 2>/dev/null || true\n") + ifTimerIsProviders(
	TimerOff.Script())

// ClearScript removes the files of scheduled snapshots that Create has installed
// below /etc/systemd. The rest is removed with the directory of the member's settings.
func ClearScript() host.Script {
	return ifTimerIsProviders(host.Discard(TimerLink.Path, ServicePath, TimerPath) + "rmdir " +
		host.Words(path.Dir(TimerLink.Path)) + " 2>/dev/null || true\n")
}

// leftovers returns the provider's files of scheduled snapshots that m does not have.
func (m Member) leftovers(files map[string]host.FileState) []string {
	wanted := m.Files()
	var over []string
	for _, p := range Paths {
		_, there := files[p]
		if there && isWrittenByProvider(files, p) && !slices.ContainsFunc(wanted, func(f host.File) bool {
			return f.Path == p
		}) {
			over = append(over, p)
		}
	}
	return over
}

// isWrittenByProvider reports whether the provider wrote a file of scheduled snapshots.
// The user's commands have no header, but the file that runs them does.
func isWrittenByProvider(files map[string]host.FileState, p string) bool {
	if p != UploadPath {
		return WrittenByProvider(files[p])
	}
	return slices.ContainsFunc(Paths, func(other string) bool { return WrittenByProvider(files[other]) })
}

// timerRuns reports whether systemd has the timer in the desired state.
func timerRuns(timer host.UnitState) bool {
	return timer.Load == "loaded" && timer.Active == "active" && timer.Enabled == "enabled" && !timer.NeedReload
}

// runsWithoutFile reports whether a timer runs whose file has been removed.
func runsWithoutFile(timer host.UnitState) bool {
	return timer.Load == "not-found" && timer.Active == "active"
}

// Repair returns the files that bring the scheduled snapshots of a machine to m, those to
// remove, and what to do with the timer.
func (m Member) Repair(facts host.Facts) (change host.Change, timer TimerAction) {
	unit := facts.Units[Timer]
	for _, file := range m.Files() {
		have, ok := facts.Files[file.Path]
		unread := facts.Units[path.Base(file.Path)].NeedReload // a file in a change makes systemd reload its units
		if !ok || have.SHA256 != fileDigest(file) || have.Mode.Perm() != file.Mode || have.Owner != "root" || unread {
			change.Files = append(change.Files, file)
			if file.Path == TimerPath {
				timer = TimerOn
			}
		}
	}
	if m.Settings != nil && !timerRuns(unit) {
		timer = TimerOn
	}
	if over := m.leftovers(facts.Files); len(over) > 0 || m.Settings == nil && runsWithoutFile(unit) {
		change.Remove = append(change.Remove, over...)
		if _, there := facts.Files[TimerPath]; m.Settings == nil && (!there || slices.Contains(over, TimerPath)) {
			change.Remove = append(change.Remove, TimerLink.Path, path.Dir(TimerLink.Path)) // the directory only if it is empty
			timer = TimerOff
		}
	}
	return change, timer
}

func fileDigest(file host.File) string { return fmt.Sprintf("%x", sha256.Sum256(file.Content)) }

// Drift describes how the files and the timer of scheduled snapshots differ from m.
// A failed last run is no drift: no apply repairs it.
func (m Member) Drift(facts host.Facts) []string {
	var words []string
	for _, file := range m.Files() {
		have, ok := facts.Files[file.Path]
		switch {
		case !ok:
			words = append(words, file.Path+" is missing")
		case facts.Units[path.Base(file.Path)].Load == "masked":
			words = append(words, path.Base(file.Path)+" is masked")
		case have.SHA256 != fileDigest(file):
			words = append(words, editedDrift(file, have.Content)...)
		case have.Mode.Perm() != file.Mode || have.Owner != "root":
			words = append(words, fmt.Sprintf("%s has mode %04o and owner %s, wanted %04o and root", file.Path, have.Mode.Perm(),
				have.Owner, file.Mode))
		case facts.Units[path.Base(file.Path)].NeedReload:
			words = append(words, path.Base(file.Path)+" changed on disk after systemd loaded it")
		}
	}
	for _, p := range m.leftovers(facts.Files) {
		words = append(words, p+" exists, wanted none")
	}
	return append(words, m.timerDrift(facts.Units[Timer])...)
}

// timerDrift describes the drift of the timer's state in systemd, in addition to its file.
func (m Member) timerDrift(timer host.UnitState) []string {
	var words []string
	switch {
	case m.Settings == nil && runsWithoutFile(timer):
		return []string{Timer + " is active, wanted none"}
	case m.Settings == nil || timer.Load == "masked" || timer.Load == "not-found": // reported as drift of the file
		return nil
	}
	if timer.Active != "active" {
		words = append(words, fmt.Sprintf("%s is %s, wanted active", Timer, cmp.Or(timer.Active, "missing")))
	}
	if timer.Enabled != "enabled" {
		words = append(words, fmt.Sprintf("%s is %s, wanted enabled", Timer, cmp.Or(timer.Enabled, "missing")))
	}
	return words
}

// editedDrift names the lines of a unit that differ. It never shows the upload commands:
// they are the user's.
func editedDrift(file host.File, content string) []string {
	if path.Dir(file.Path) == layout.ConfigDir {
		return []string{file.Path + " was edited manually"}
	}
	if words := systemd.LineDifferences(file.Path, content, string(file.Content)); len(words) > 0 {
		return words
	}
	return []string{file.Path + " was edited manually"}
}

// Problems lists what keeps the scheduled snapshots of m from being set up on the
// machine. It includes the answers of the machine only if files must be written: a later
// problem must not keep a member from being repaired.
func (m Member) Problems(facts host.Facts) []string {
	var problems []string
	changes := false
	for _, file := range m.Files() {
		have, ok := facts.Files[file.Path]
		changes = changes || have.SHA256 != fileDigest(file)
		if ok && have.Content != "" && !isWrittenByProvider(facts.Files, file.Path) {
			problems = append(problems, file.Path+" exists and was not written by the provider: move it away, "+
				"and a unit together with its other files")
		}
	}
	if changes {
		problems = append(problems, m.answers(facts.Output)...)
	}
	return problems
}

// Output of questions.sh for a schedule and an environment file that the machine cannot
// use.
const (
	BadCalendar   = "calendar"
	NoEnvironment = "environment"
)

//go:embed questions.sh
var questionsScript host.Script

// Questions returns the script that checks on a machine what only the machine
// knows about the scheduled snapshots of m, with the variables of the script.
func (m Member) Questions() (script host.Script, vars map[string]string) {
	if m.Settings == nil {
		return "", nil
	}
	return questionsScript, map[string]string{"schedule": m.Settings.Schedule, "environment": m.Settings.EnvironmentFile}
}

// answers returns the problems in the output of the script of Questions.
func (m Member) answers(output string) []string {
	var problems []string
	reported := strings.Fields(output)
	if slices.Contains(reported, BadCalendar) {
		problems = append(problems, fmt.Sprintf("its systemd rejects the schedule %q of snapshots (run systemd-analyze "+
			"calendar '%s' for the reason)", m.Settings.Schedule, m.Settings.Schedule))
	}
	if slices.Contains(reported, NoEnvironment) {
		problems = append(problems, fmt.Sprintf("environment_file %s of snapshots does not exist: "+
			"create it on the machine first", m.Settings.EnvironmentFile))
	}
	return problems
}
