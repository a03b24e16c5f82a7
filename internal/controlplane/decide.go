package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// changes describes what has to change on a machine, and which components must be restarted. It
// is decided before the first change.
type changes struct {
	files   []host.File // to be written
	remove  []string    // files that must not exist, and directories of such files
	restart []string    // components that do not run what the files will contain
	// later are unit files, by component, that are written once the API server is ready. A
	// component that exits in the meantime must not restart with a newer version than the API
	// server that still runs.
	later map[string]host.File
	// halt are components that are stopped before the API server is restarted, because
	// they would be newer than it.
	halt     []string
	rollback *rollbackRecord // what ran so far; nil if it cannot be restored
	begins   bool            // a Create on a machine that has no record yet
}

// writes reports whether the file at path is written.
func (d changes) writes(path string) bool {
	return slices.ContainsFunc(d.files, func(file host.File) bool { return file.Path == path })
}

// restarts reports whether component c is restarted.
func (d changes) restarts(c string) bool { return slices.Contains(d.restart, c) }

// stagger delays the unit files of components that are restarted after the API server
// and exist already.
func (d *changes) stagger(f observed) {
	if !d.restarts(release.APIServer) {
		return
	}
	d.later = map[string]host.File{}
	for _, name := range d.restart {
		if _, there := f.facts.Files[unit.Path(name)]; !there || name == release.APIServer {
			continue
		}
		d.files = slices.DeleteFunc(d.files, func(file host.File) bool {
			if file.Path == unit.Path(name) {
				d.later[name] = file
			}
			return file.Path == unit.Path(name)
		})
	}
}

// decide compares what was observed with s. Valid certificates are kept, so that a
// repeated call restarts nothing; the others are issued here.
func decide(s component.Replica, f observed, now time.Time) (changes, error) {
	files, err := issue(s, f, now)
	if err != nil {
		return changes{}, fmt.Errorf("prepare replica %s: %w", s.Machine(), err)
	}
	files = append(files, component.Files(s)...)
	var remove []string
	for _, path := range component.UnwantedFiles(s) {
		if _, there := f.facts.Files[path]; there {
			remove = append(remove, path)
		}
	}
	if _, there := f.facts.Files[creatingPath]; there && f.record.ClusterID != "" {
		remove = append(remove, creatingPath) // a Create was interrupted just before its end
	}
	for _, c := range component.Of(s) {
		files = append(files, unit.File(c))
		if edits := f.overrides(c.Name); len(edits) > 0 {
			remove = append(append(remove, edits...), unit.DropInDir(c.Name))
		}
	}
	after := f.digests()
	for _, file := range files {
		after[file.Path] = digest(file.Content)
	}
	// The record comes last: it must not name files that do not exist yet.
	files = append(files, recordOf(s, after).file())
	return changes{files: files, remove: remove, restart: restarts(s, f, after)}, nil
}

// issue issues the certificates that are missing or invalid.
func issue(s component.Replica, f observed, now time.Time) ([]host.File, error) {
	var files []host.File
	for _, c := range component.Certificates(s) {
		if len(certificateProblems(s, c, f, now)) == 0 {
			continue
		}
		pair, err := s.Bundle.Issue(c.Leaf, now, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, c.Files(pair)...)
	}
	for _, k := range component.Kubeconfigs(s) {
		if len(kubeconfigProblems(s, k, f, now)) == 0 {
			continue
		}
		file, err := k.Issue(s, now)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// restarts returns the components that do not run, or that run with other files than the wanted
// ones (after: their digests once written). If the API server does not run, the others
// crash-loop without it. They are restarted with it, so that a component that is about to exit
// does not count as ready.
func restarts(s component.Replica, f observed, after map[string]string) []string {
	var out []string
	alone := unitProblem(f.facts.Units[unit.Name(release.APIServer)]) != ""
	for _, c := range component.Of(s) {
		if alone || restartReason(c, f, after) != "" {
			out = append(out, c.Name)
		}
	}
	return out
}

// restartReason returns why component c must be restarted, or "". It compares with the note
// written at the component's start, so that a change that was interrupted before the restart is
// still detected.
func restartReason(c component.Component, f observed, after map[string]string) string {
	state := f.facts.Units[unit.Name(c.Name)]
	if fault := unitProblem(state); fault != "" {
		return fault
	}
	noted := systemd.ReadStartNote(f.facts.Files[unit.StartNotePath(c.Name)].Content)
	definition := unit.File(c).Path
	// An edit of a unit file that systemd has not read is reverted before the process has used
	// it.
	undone := noted[definition] == after[definition] && f.facts.Files[definition].SHA256 != after[definition]
	if state.NeedReload && !undone {
		return "its definition changed after systemd read it"
	}
	if len(f.overrides(c.Name)) > 0 {
		return "its definition is changed by files in " + unit.DropInDir(c.Name)
	}
	for _, path := range append([]string{definition}, c.Inputs...) {
		if noted[path] != after[path] {
			return "it was started with another " + path
		}
	}
	return ""
}

// unitProblem returns why a unit does not run, or "". A first start in progress is no
// problem; a unit that systemd restarts again and again is one.
func unitProblem(unit host.UnitState) string {
	switch {
	case unit.Active == "active":
		return ""
	case unit.Active == "activating" && unit.Sub != "auto-restart":
		return ""
	case unit.Load == "" || unit.Load == "not-found":
		return "does not exist"
	case unit.Sub == "auto-restart" || unit.Active == "failed":
		return "fails (" + unit.Result + ")"
	}
	return "is " + unit.Active
}

// ConfigDigest returns the digest of every file whose content depends on s alone. It is known
// before the replica exists, and equals Status.ConfigDigest of a machine that has exactly those
// files. It does not cover certificates and keys.
func (s Spec) ConfigDigest() string {
	digests := map[string]string{}
	for _, file := range stableFiles(s.Replica) {
		digests[file.Path] = digest(file.Content)
	}
	return digestOf(digests)
}

// configDigest returns the ConfigDigest of the observed files.
func (f observed) configDigest(s component.Replica) string {
	digests := map[string]string{}
	for _, file := range stableFiles(s) {
		digests[file.Path] = f.facts.Files[file.Path].SHA256
	}
	return digestOf(digests)
}

func stableFiles(s component.Replica) []host.File {
	var out []host.File
	for _, file := range component.Files(s) {
		if file.Mode == component.PublicMode {
			out = append(out, file)
		}
	}
	for _, c := range component.Of(s) {
		out = append(out, unit.File(c))
	}
	return out
}

func digestOf(digests map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		b.WriteString(digests[path] + "  " + path + "\n")
	}
	return digest([]byte(b.String()))
}
