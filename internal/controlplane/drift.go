package controlplane

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// drift describes how a machine differs from s. Each line contains the name of the machine. A
// component that is temporarily not ready is not drift; a unit that does not run is.
func drift(s component.Replica, f machine.Observed, now time.Time) []string {
	var problems []string
	problems = append(problems, recordDrift(s, f)...)
	for _, c := range component.Of(s) {
		problems = append(problems, componentDrift(s, c, f)...)
	}
	for _, file := range component.Files(s) {
		if reason := machine.FileProblem(f.Facts.Files, file); reason != "" {
			problems = append(problems, file.Path+" "+reason)
		}
	}
	for _, path := range component.UnwantedFiles(s) {
		if _, there := f.Facts.Files[path]; there {
			problems = append(problems, path+" exists, but is not wanted")
		}
	}
	problems = append(problems, konnectivityDrift(s, f)...)
	problems = append(problems, machine.ConfigFilesDrift(s, f)...)
	for _, c := range component.Certificates(s) {
		problems = append(problems, machine.CertificateProblems(s, c, f, now)...)
	}
	for _, k := range component.Kubeconfigs(s) {
		problems = append(problems, machine.KubeconfigProblems(s, k, f, now)...)
	}
	for _, job := range machine.Jobs(s) {
		problems = append(problems, job.Drift(f.Facts)...)
	}
	problems = append(problems, machine.Liveness(s).Lacks(f.Facts)...)
	for i, text := range problems {
		problems[i] = s.Machine() + ": " + text
	}
	return problems
}

func recordDrift(s component.Replica, f machine.Observed) []string {
	switch {
	case f.RecordErr != nil:
		return []string{machine.RecordPath + " cannot be read"}
	case f.Record.ClusterID == "":
		return []string{machine.RecordPath + " is missing"}
	case f.Record.ClusterID != s.Bundle.ClusterID:
		return []string{fmt.Sprintf("holds a replica of another cluster, %q", f.Record.ClusterName)}
	case f.Record.Name != s.Name:
		return []string{fmt.Sprintf("holds replica %q, wanted %q", f.Record.Name, s.Name)}
	case !f.Record.Matches(s):
		return []string{machine.RecordPath + " names another endpoint, port or etcd than wanted"}
	}
	return generationDrift(f.Record.Generations, s.Bundle.Generations())
}

func generationDrift(have, want map[pki.Part]int) []string {
	var problems []string
	for _, part := range pki.Parts() {
		if have[part] != want[part] {
			problems = append(problems, fmt.Sprintf("is at generation %d of %s, wanted %d", have[part], part, want[part]))
		}
	}
	return problems
}

func componentDrift(s component.Replica, c component.Component, f machine.Observed) []string {
	var problems []string
	add := func(format string, args ...any) {
		problems = append(problems, c.Name+": "+fmt.Sprintf(format, args...))
	}
	by := runtime.Of(s)
	directory, name := path.Split(c.Program)
	if by.OnMachine() && !slices.Contains(f.Facts.Dirs[path.Clean(directory)], name) {
		add("%s is missing", c.Program)
	}
	state := by.State(f.Facts, c.Name)
	reason := machine.UnitProblem(state)
	if reason != "" {
		add("%s %s", by.Unit(c.Name), reason)
	} else if restart := machine.RestartReason(c, f, f.Digests()); restart != "" {
		add("%s", restart)
	}
	if state.Load == "loaded" && state.Enabled != "enabled" {
		add("%s is %s, wanted enabled", by.Unit(c.Name), cmp.Or(state.Enabled, "not enabled"))
	}
	if version := f.Version(c.Name); version != "" && version != s.Version {
		add("runs version %s, wanted %s", version, s.Version)
	}
	for _, text := range definitionDrift(c, f) {
		add("%s", text)
	}
	return problems
}

// definitionDrift compares a definition with the rendered one: by flag if it can be
// parsed, by line if these are equal, as a whole otherwise.
func definitionDrift(c component.Component, f machine.Observed) []string {
	by := runtime.Named(c.Runtime)
	want := by.Definition(c)
	reason := machine.FileProblem(f.Facts.Files, want)
	if reason == "" {
		return nil
	}
	state, ok := f.Facts.Files[want.Path]
	if !ok || state.SHA256 == machine.Digest(want.Content) {
		return []string{want.Path + " " + reason}
	}
	have, err := by.Parse(state.Content)
	if err != nil {
		return []string{want.Path + " was edited: " + err.Error()}
	}
	problems := systemd.FlagDifferences(have.Flags, by.Flags(c))
	if have.Program != c.Program {
		problems = append(problems, fmt.Sprintf("%s starts %s, wanted %s", want.Path, have.Program, c.Program))
	}
	if !slices.Equal(have.Groups, c.Groups) {
		problems = append(problems, fmt.Sprintf("%s names the groups [%s], wanted [%s]",
			want.Path, strings.Join(have.Groups, " "), strings.Join(c.Groups, " ")))
	}
	if len(problems) == 0 {
		problems = systemd.LineDifferences(want.Path, state.Content, string(want.Content))
	}
	if len(problems) == 0 {
		problems = append(problems, want.Path+" was edited")
	}
	return problems
}
