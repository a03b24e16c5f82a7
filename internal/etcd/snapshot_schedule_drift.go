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

// timerVerb is what happens to the timer of scheduled snapshots after a change
// of files.
type timerVerb int

const (
	timerLeft timerVerb = iota
	timerOn             // it runs, on the files as they are
	timerOff            // it and what it started have stopped
)

// stampPath is where systemd keeps when the timer last elapsed (Persistent=). A
// timer that is made anew shall not make up for what an earlier one missed.
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

// ifTimerIsProviders guards commands against somebody else's units of that name.
func ifTimerIsProviders(commands host.Script) host.Script {
	return "if grep -qsxF '" + systemd.Managed + "' " + snapshotTimerPath + " " + snapshotServicePath + "; then\n" + commands + "fi\n"
}

// stopTimerScript ends snapshots before the member that they are of.
var stopTimerScript = ifTimerIsProviders("  systemctl disable --quiet "+snapshotTimer+" 2>/dev/null || true\n") + ifTimerIsProviders(timerOff.script())

// clearTimerScript removes what Create has put there of scheduled snapshots below
// /etc/systemd; the rest goes with the directory of the member's settings.
func clearTimerScript() host.Script {
	return ifTimerIsProviders(host.Discard(snapshotLink.Path, snapshotServicePath, snapshotTimerPath) + "rmdir " + host.Words(path.Dir(snapshotLink.Path)) + " 2>/dev/null || true\n")
}

// snapshotLeftovers are files of the provider's for scheduled snapshots that s
// does not have.
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

// isWrittenByProvider reports whether a file of scheduled snapshots is the provider's. The
// user's commands do not say so themselves, but what runs them does.
func isWrittenByProvider(files map[string]host.FileState, p string) bool {
	if p != snapshotUploadPath {
		return hasProviderHeader(files[p])
	}
	return slices.ContainsFunc(snapshotPaths, func(other string) bool { return hasProviderHeader(files[other]) })
}

// timerRuns reports whether systemd has the timer as it shall be.
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
		unread := f.facts.Units[path.Base(file.Path)].NeedReload // systemd is asked to read again what is in a change
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
			r.Change.Remove = append(r.Change.Remove, snapshotLink.Path, path.Dir(snapshotLink.Path)) // that, where it is empty
			r.Timer = timerOff
		}
	}
}

// snapshotDrift says in words how the files and the timer of scheduled snapshots
// differ from s. How the last run ended is no drift: no apply mends it.
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
			words = append(words, path.Base(file.Path)+" was changed on disk after systemd read it")
		}
	}
	for _, p := range snapshotLeftovers(s, f.facts.Files) {
		words = append(words, p+" is there, wanted not there")
	}
	return append(words, timerDrift(s, f.facts.Units[snapshotTimer])...)
}

// timerDrift is what systemd has to say of the timer beside its file.
func timerDrift(s Spec, timer host.UnitState) []string {
	var words []string
	switch {
	case s.Snapshots == nil && runsWithoutFile(timer):
		return []string{snapshotTimer + " is active, wanted not there"}
	case s.Snapshots == nil || timer.Load == "masked" || timer.Load == "not-found": // that is the file's
		return nil
	}
	if timer.Active != "active" {
		words = append(words, fmt.Sprintf("%s is %s, wanted active", snapshotTimer, cmp.Or(timer.Active, "not there")))
	}
	if timer.Enabled != "enabled" {
		words = append(words, fmt.Sprintf("%s is %s, wanted enabled", snapshotTimer, cmp.Or(timer.Enabled, "not there")))
	}
	return words
}

// editedDrift names the lines of a unit that differ. Of the commands it shows
// none: they are the user's.
func editedDrift(file host.File, found string) []string {
	if path.Dir(file.Path) == configDir {
		return []string{file.Path + " is not as it was written"}
	}
	if words := systemd.LineDifferences(file.Path, found, string(file.Content)); len(words) > 0 {
		return words
	}
	return []string{file.Path + " was edited by hand"}
}

// snapshotProblems are what keeps scheduled snapshots of s from being set up on the
// machine. It is asked only when something is to be set up, for what went wrong
// afterwards shall not keep a member from being mended.
func snapshotProblems(s Spec, f observed) []string {
	var faults []string
	changes := false
	for _, file := range snapshotFiles(s) {
		have, ok := f.facts.Files[file.Path]
		changes = changes || have.SHA256 != digest(file.Content)
		if ok && have.Content != "" && !isWrittenByProvider(f.facts.Files, file.Path) {
			faults = append(faults, file.Path+" is there and was not written by the provider: move it away, a unit with what belongs to it")
		}
	}
	if changes {
		faults = append(faults, snapshotAnswers(s, f.facts.Output)...)
	}
	return faults
}

// What questions.sh says of a schedule and an environment file that the machine
// cannot use.
const (
	badCalendar   = "calendar"
	noEnvironment = "environment"
)

//go:embed questions.sh
var questionsScript host.Script

// snapshotQuestions is the script that asks a machine for what it alone knows of
// the scheduled snapshots of s, with its values.
func snapshotQuestions(s Spec) (script host.Script, vars map[string]string) {
	if s.Snapshots == nil {
		return "", nil
	}
	return questionsScript, map[string]string{"schedule": s.Snapshots.Schedule, "environment": s.Snapshots.EnvironmentFile}
}

// snapshotAnswers are the faults that the machine's answer to snapshotQuestions names.
func snapshotAnswers(s Spec, output string) []string {
	var faults []string
	said := strings.Fields(output)
	if slices.Contains(said, badCalendar) {
		faults = append(faults, fmt.Sprintf("its systemd does not take the schedule %q of snapshots (systemd-analyze calendar '%s' says why)", s.Snapshots.Schedule, s.Snapshots.Schedule))
	}
	if slices.Contains(said, noEnvironment) {
		faults = append(faults, fmt.Sprintf("environment_file %s of snapshots is not there: put it onto the machine first", s.Snapshots.EnvironmentFile))
	}
	return faults
}
