package etcd

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// timerVerb is what happens to the timer of scheduled snapshots after a change of files.
type timerVerb int

const (
	timerLeft timerVerb = iota
	timerOn             // it runs, with the current files
	timerOff            // the timer and what it started are stopped
)

// stampPath is where systemd stores when the timer last elapsed (Persistent=). A new timer
// must not make up for the missed runs of an earlier one.
const stampPath = "/var/lib/systemd/timers/stamp-" + snapshotTimer

func (v timerVerb) script() host.Script {
	switch v {
	case timerOn:
		return "systemctl restart " + snapshotTimer + "\n"
	case timerOff:
		return "systemctl stop " + snapshotTimer + " " + snapshotService + " 2>/dev/null || true\n" +
			"systemctl reset-failed " + snapshotTimer + " " + snapshotService + " 2>/dev/null || true\n" +
			"rm -f " + stampPath + "\n"
	}
	return ""
}

// ifTimerIsProviders restricts commands to the provider's units: other units may have the
// same name.
func ifTimerIsProviders(commands host.Script) host.Script {
	return "if grep -qsxF '" + systemd.Managed + "' " + snapshotTimerPath + " " + snapshotServicePath + "; then\n" + commands + "fi\n"
}

// stopTimerScript stops scheduled snapshots before their member is stopped.
var stopTimerScript = ifTimerIsProviders("  systemctl disable --quiet "+snapshotTimer+" 2>/dev/null || true\n") + ifTimerIsProviders(timerOff.script())

// clearTimerScript removes the files of scheduled snapshots that Create has installed
// below /etc/systemd. The rest is removed with the directory of the member's settings.
func clearTimerScript() host.Script {
	return ifTimerIsProviders(host.Discard(snapshotLink.Path, snapshotServicePath, snapshotTimerPath) + "rmdir " + host.Words(path.Dir(snapshotLink.Path)) + " 2>/dev/null || true\n")
}

// snapshotLeftovers returns the provider's files of scheduled snapshots that s does not
// have.
func snapshotLeftovers(s Spec, files map[string]host.FileState) []string {
	wanted := snapshotFiles(s)
	var over []string
	for _, p := range snapshotPaths {
		_, there := files[p]
		if there && isWrittenByProvider(files, p) && !slices.ContainsFunc(wanted, func(f host.File) bool { return f.Path == p }) {
			over = append(over, p)
		}
	}
	return over
}

// isWrittenByProvider reports whether the provider wrote a file of scheduled snapshots.
// The user's commands have no header, but the file that runs them does.
func isWrittenByProvider(files map[string]host.FileState, p string) bool {
	if p != snapshotUploadPath {
		return hasProviderHeader(files[p])
	}
	return slices.ContainsFunc(snapshotPaths, func(other string) bool { return hasProviderHeader(files[other]) })
}

// timerRuns reports whether systemd has the timer in the desired state.
func timerRuns(timer host.UnitState) bool {
	return timer.Load == "loaded" && timer.Active == "active" && timer.Enabled == "enabled" && !timer.NeedReload
}

// runsWithoutFile reports whether a timer runs whose file has been removed.
func runsWithoutFile(timer host.UnitState) bool {
	return timer.Load == "not-found" && timer.Active == "active"
}

// repairSnapshots adds to r what brings scheduled snapshots to s.
func (r *repair) repairSnapshots(s Spec, f observed) {
	timer := f.facts.Units[snapshotTimer]
	for _, file := range snapshotFiles(s) {
		have, ok := f.facts.Files[file.Path]
		unread := f.facts.Units[path.Base(file.Path)].NeedReload // a file in a change makes systemd reload its units
		if !ok || have.SHA256 != digest(file.Content) || have.Mode.Perm() != file.Mode || have.Owner != "root" || unread {
			r.Change.Files = append(r.Change.Files, file)
			if file.Path == snapshotTimerPath {
				r.Timer = timerOn
			}
		}
	}
	if s.Snapshots != nil && !timerRuns(timer) {
		r.Timer = timerOn
	}
	if over := snapshotLeftovers(s, f.facts.Files); len(over) > 0 || s.Snapshots == nil && runsWithoutFile(timer) {
		r.Change.Remove = append(r.Change.Remove, over...)
		if _, there := f.facts.Files[snapshotTimerPath]; s.Snapshots == nil && (!there || slices.Contains(over, snapshotTimerPath)) {
			r.Change.Remove = append(r.Change.Remove, snapshotLink.Path, path.Dir(snapshotLink.Path)) // the directory only if it is empty
			r.Timer = timerOff
		}
	}
}

// snapshotDrift describes how the files and the timer of scheduled snapshots differ from
// s. A failed last run is no drift: no apply repairs it.
func snapshotDrift(s Spec, f observed) []string {
	var words []string
	for _, file := range snapshotFiles(s) {
		have, ok := f.facts.Files[file.Path]
		switch {
		case !ok:
			words = append(words, file.Path+" is missing")
		case f.facts.Units[path.Base(file.Path)].Load == "masked":
			words = append(words, path.Base(file.Path)+" is masked")
		case have.SHA256 != digest(file.Content):
			words = append(words, editedDrift(file, have.Content)...)
		case have.Mode.Perm() != file.Mode || have.Owner != "root":
			words = append(words, fmt.Sprintf("%s has mode %04o and owner %s, wanted %04o and root", file.Path, have.Mode.Perm(), have.Owner, file.Mode))
		case f.facts.Units[path.Base(file.Path)].NeedReload:
			words = append(words, path.Base(file.Path)+" changed on disk after systemd loaded it")
		}
	}
	for _, p := range snapshotLeftovers(s, f.facts.Files) {
		words = append(words, p+" exists, wanted none")
	}
	return append(words, timerDrift(s, f.facts.Units[snapshotTimer])...)
}

// timerDrift describes the drift of the timer's state in systemd, in addition to its file.
func timerDrift(s Spec, timer host.UnitState) []string {
	var words []string
	switch {
	case s.Snapshots == nil && runsWithoutFile(timer):
		return []string{snapshotTimer + " is active, wanted none"}
	case s.Snapshots == nil || timer.Load == "masked" || timer.Load == "not-found": // reported as drift of the file
		return nil
	}
	if timer.Active != "active" {
		words = append(words, fmt.Sprintf("%s is %s, wanted active", snapshotTimer, cmp.Or(timer.Active, "missing")))
	}
	if timer.Enabled != "enabled" {
		words = append(words, fmt.Sprintf("%s is %s, wanted enabled", snapshotTimer, cmp.Or(timer.Enabled, "missing")))
	}
	return words
}

// editedDrift names the lines of a unit that differ. It never shows the upload commands:
// they are the user's.
func editedDrift(file host.File, found string) []string {
	if path.Dir(file.Path) == configDir {
		return []string{file.Path + " was edited manually"}
	}
	if words := systemd.LineDifferences(file.Path, found, string(file.Content)); len(words) > 0 {
		return words
	}
	return []string{file.Path + " was edited manually"}
}

// snapshotProblems lists what keeps scheduled snapshots of s from being set up on the
// machine. It includes the answers of the machine only if files must be written: a later
// problem must not keep a member from being repaired.
func snapshotProblems(s Spec, f observed) []string {
	var faults []string
	changes := false
	for _, file := range snapshotFiles(s) {
		have, ok := f.facts.Files[file.Path]
		changes = changes || have.SHA256 != digest(file.Content)
		if ok && have.Content != "" && !isWrittenByProvider(f.facts.Files, file.Path) {
			faults = append(faults, file.Path+" exists and was not written by the provider: move it away, and a unit together with its other files")
		}
	}
	if changes {
		faults = append(faults, snapshotAnswers(s, f.facts.Output)...)
	}
	return faults
}

// Output of questions.sh for a schedule and an environment file that the machine cannot
// use.
const (
	badCalendar   = "calendar"
	noEnvironment = "environment"
)

//go:embed questions.sh
var questionsScript host.Script

// snapshotQuestions returns the script that checks on a machine what only the machine
// knows about the scheduled snapshots of s, with the variables of the script.
func snapshotQuestions(s Spec) (script host.Script, vars map[string]string) {
	if s.Snapshots == nil {
		return "", nil
	}
	return questionsScript, map[string]string{"schedule": s.Snapshots.Schedule, "environment": s.Snapshots.EnvironmentFile}
}

// snapshotAnswers returns the problems in the output of snapshotQuestions.
func snapshotAnswers(s Spec, output string) []string {
	var faults []string
	said := strings.Fields(output)
	if slices.Contains(said, badCalendar) {
		faults = append(faults, fmt.Sprintf("its systemd rejects the schedule %q of snapshots (run systemd-analyze calendar '%s' for the reason)", s.Snapshots.Schedule, s.Snapshots.Schedule))
	}
	if slices.Contains(said, noEnvironment) {
		faults = append(faults, fmt.Sprintf("environment_file %s of snapshots does not exist: create it on the machine first", s.Snapshots.EnvironmentFile))
	}
	return faults
}
