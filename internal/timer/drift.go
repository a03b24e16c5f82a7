package timer

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Drift describes how the files and the timer on a machine differ from the job. A failed last
// run is no drift: no apply repairs it.
func (j Job) Drift(facts host.Facts) []string {
	var words []string
	for _, file := range j.Files {
		have, ok := facts.Files[file.Path]
		switch {
		case !ok:
			words = append(words, file.Path+" is missing")
		case facts.Units[path.Base(file.Path)].Load == "masked":
			words = append(words, path.Base(file.Path)+" is masked")
		case have.SHA256 != digest(file):
			words = append(words, edited(file, have.Content)...)
		case have.Mode.Perm() != file.Mode || have.Owner != "root":
			words = append(words, fmt.Sprintf("%s has mode %04o and owner %s, wanted %04o and root", file.Path, have.Mode.Perm(),
				have.Owner, file.Mode))
		case facts.Units[path.Base(file.Path)].NeedReload:
			words = append(words, path.Base(file.Path)+" changed on disk after systemd loaded it")
		}
	}
	for _, p := range j.leftovers(facts.Files) {
		words = append(words, p+" exists, wanted none")
	}
	return append(words, j.stateDrift(facts.Units[j.Timer()])...)
}

// stateDrift describes the drift of the timer's state in systemd, in addition to its file.
func (j Job) stateDrift(timer host.UnitState) []string {
	switch {
	case !j.wanted() && runsWithoutFile(timer):
		return []string{j.Timer() + " is active, wanted none"}
	case !j.wanted() || timer.Load == "masked" || timer.Load == "not-found": // reported as drift of the file
		return nil
	}
	var words []string
	if timer.Active != "active" {
		words = append(words, fmt.Sprintf("%s is %s, wanted active", j.Timer(), cmp.Or(timer.Active, "missing")))
	}
	if timer.Enabled != "enabled" {
		words = append(words, fmt.Sprintf("%s is %s, wanted enabled", j.Timer(), cmp.Or(timer.Enabled, "missing")))
	}
	return words
}

// edited names the lines of a unit that differ. It does not show other files: some hold
// commands of the user.
func edited(file host.File, content string) []string {
	if strings.HasPrefix(file.Path, unitDir+"/") {
		if words := systemd.LineDifferences(file.Path, content, string(file.Content)); len(words) > 0 {
			return words
		}
	}
	return []string{file.Path + " was edited manually"}
}
