package controlplane

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// changes describes what has to change on a machine, and which components must be restarted. It
// is decided before the first change.
type changes struct {
	dirs    []host.Dir  // in addition to those of every replica
	files   []host.File // to be written
	remove  []string    // files that must not exist, and directories of such files
	restart []string    // components that do not run what the files will contain
	returns []string    // of them, those that are started from the manifest that kubeadm has written
	resumes bool        // they were paused, and nothing has changed
	// deferredUnits are definitions, by component, that are written once the API server is ready. A
	// component that exits in the meantime must not restart with a newer version than the API
	// server that still runs.
	deferredUnits map[string]host.File
	// stopFirst are components that are stopped before the API server is restarted, because
	// they would be newer than it.
	stopFirst []string
	// konnectivity are the files of a proxy server that is removed once the API server does not use
	// it any more.
	konnectivity []string
	// agents says whether agents of the proxy server are waited for, and when.
	agents   agentsWait
	timers   host.Script             // what follows for the timer of the liveness probe
	modes    map[string]fs.FileMode  // of files that are there with a narrower one, by path
	rollback *machine.RollbackRecord // what ran so far; nil if it cannot be restored
	isCreate bool                    // a Create on a machine that has no record yet
	// leaves is what has run the components so far; nil if that does not change.
	leaves runtime.Runtime
	// keepsFiles says that files of the user change, and are kept for a rollback.
	keepsFiles bool
	// filesList is written once the change is complete; nil if the list needs no change then.
	filesList *machine.WrittenFiles
	record    machine.Record // as in files
}

// setModes returns the script that gives files their modes.
func (d changes) setModes() host.Script {
	var script host.Script
	for _, path := range slices.Sorted(maps.Keys(d.modes)) {
		script += host.Chmod(path, d.modes[path])
	}
	return script
}

// writes reports whether the file at path is written.
func (d changes) writes(path string) bool {
	return slices.ContainsFunc(d.files, func(file host.File) bool { return file.Path == path })
}

// restarts reports whether component c is restarted.
func (d changes) restarts(c string) bool { return slices.Contains(d.restart, c) }

// start returns the script that restarts component c.
func (d changes) start(by runtime.Runtime, c string) host.Script {
	switch {
	case slices.Contains(d.returns, c):
		return by.Return([]string{c})
	case d.resumes:
		return by.Resume([]string{c})
	}
	return by.Restart([]string{c})
}

// deferUnits delays the definitions of components that are restarted after the API server
// and exist already.
func (d *changes) deferUnits(f machine.Observed) {
	by := f.Runtime()
	if !d.restarts(release.APIServer) {
		return
	}
	d.deferredUnits = map[string]host.File{}
	for _, name := range d.restart {
		_, there := f.Facts.Files[by.Path(name)]
		if !there || name == release.APIServer || name == component.KonnectivityServer {
			continue
		}
		d.files = slices.DeleteFunc(d.files, func(file host.File) bool {
			if file.Path == by.Path(name) {
				d.deferredUnits[name] = file
			}
			return file.Path == by.Path(name)
		})
	}
}

// decide compares what was observed with s. Valid certificates are kept, so that a
// repeated call restarts nothing; the others are issued here.
func decide(s component.Replica, f machine.Observed, now time.Time) (changes, error) {
	f = f.Compared(s)
	files, err := issue(s, f.Widened(s), now)
	if err != nil {
		return changes{}, fmt.Errorf("prepare replica %s: %w", s.Machine(), err)
	}
	files = append(files, component.Files(s)...)
	var remove []string
	later := konnectivityPaths(s, f)
	for _, path := range component.UnwantedFiles(s) {
		if _, there := f.Facts.Files[path]; there && !slices.Contains(later, path) {
			remove = append(remove, path)
		}
	}
	if _, there := f.Facts.Files[machine.CreatingPath]; there && f.Record.ClusterID != "" {
		remove = append(remove, machine.CreatingPath) // a Create was interrupted just before its end
	}
	by := runtime.Of(s)
	for _, c := range component.Of(s) {
		files = append(files, by.Definition(c))
		if edits := by.Overrides(f.Facts, c.Name); len(edits) > 0 && by.DropIns(c.Name) != "" {
			remove = append(append(remove, edits...), by.DropIns(c.Name))
		}
	}
	own, over, timers := machine.RepairTimers(s, f.Facts)
	files, remove = append(files, own...), append(remove, over...)
	after := f.Digests()
	for _, file := range files {
		after[file.Path] = machine.Digest(file.Content)
	}
	machine.AddConfigDigests(s, after)
	// The record comes last: it must not name files that do not exist yet.
	record := machine.NewRecord(s, after)
	returning := f.Returning(s, after)
	record.KeepInherited(s, f, after, returning)
	files = append(files, record.File())
	d := changes{
		files: files, remove: remove, restart: restarts(s, f, after), returns: returning, konnectivity: later, timers: timers,
		modes: f.Narrowed(s), record: record,
	}
	if err := decideConfigFiles(s, f, &d); err != nil {
		return changes{}, fmt.Errorf("prepare replica %s: %w", s.Machine(), err)
	}
	return d, nil
}

// issue issues the certificates that are missing or invalid.
func issue(s component.Replica, f machine.Observed, now time.Time) ([]host.File, error) {
	var files []host.File
	for _, c := range component.Certificates(s) {
		if len(machine.CertificateProblems(s, c, f, now)) == 0 {
			continue
		}
		pair, err := s.Bundle.Issue(c.Leaf, now, 0)
		if err != nil {
			return nil, err
		}
		both := c.Files(pair)
		if f.TakesOver(s) && len(machine.CertificateProblems(s, c, f.WithKeyOf(c), now)) == 0 {
			// Only the key is invalid, so it comes last: after a takeover that is cut off in between, it still is, and the
			// record that ties the two together does not exist yet.
			slices.Reverse(both)
		}
		files = append(files, both...)
	}
	for _, k := range component.Kubeconfigs(s) {
		if len(machine.KubeconfigProblems(s, k, f, now)) == 0 {
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
func restarts(s component.Replica, f machine.Observed, after map[string]string) []string {
	var out []string
	alone := machine.UnitProblem(runtime.Of(s).State(f.Facts, release.APIServer)) != ""
	for _, c := range component.Of(s) {
		// The proxy server does not depend on the API server: agents stay connected to it.
		if alone && !c.StartsFirst || machine.RestartReason(c, f, after) != "" {
			out = append(out, c.Name)
		}
	}
	return restartsOf(out)
}

// decideConfigFiles adds the files of the user to the changes. The list of them comes first. A
// file whose content is unknown stays if it is as it should be, as in a rollback.
func decideConfigFiles(s component.Replica, f machine.Observed, d *changes) error {
	var files []host.File
	for _, p := range component.PlacedFiles(s) {
		if p.Content == nil && machine.ConfigFileProblem(f.Facts.Files, p) != "" {
			return fmt.Errorf("the content of %s is unknown", p.Path)
		}
		if p.Content != nil {
			files = append(files, p.File())
		}
	}
	for _, name := range f.UnwantedConfigFiles(s) {
		d.remove = append(d.remove, component.ConfigFilePath(name))
	}
	d.filesList = machine.ExactFilesList(s, f)
	_, listed := f.Facts.Files[machine.FilesListPath]
	_, there := f.Facts.Dirs[component.FilesDir]
	switch list := machine.NewWrittenFiles(s, f); {
	case len(list.Files) > 0:
		d.files = slices.Concat([]host.File{list.File()}, files, d.files)
	case listed:
		d.remove = append(d.remove, machine.FilesListPath)
	}
	if len(s.ConfigFiles) > 0 {
		d.dirs = append(d.dirs, host.Dir{Path: component.FilesDir, Mode: 0o755})
	} else if there && f.Written != nil {
		d.remove = append(d.remove, component.FilesDir) // stays if it holds files of somebody else
	}
	return nil
}

// touchesConfigFiles reports whether the changes write or remove a file of the user.
func (d changes) touchesConfigFiles(f machine.Observed) bool {
	differs := func(file host.File) bool {
		state, there := f.Facts.Files[file.Path]
		return path.Dir(file.Path) == component.FilesDir &&
			(!there || state.SHA256 != machine.Digest(file.Content) || state.Mode.Perm() != file.Mode ||
				state.Owner != file.Owner)
	}
	return slices.ContainsFunc(d.files, differs) ||
		slices.ContainsFunc(d.remove, func(at string) bool { return path.Dir(at) == component.FilesDir })
}

// settleFilesList takes the names of removed files out of the list, so that a later file of
// somebody else with such a name is left alone.
func settleFilesList(ctx context.Context, s Spec, d changes) error {
	if d.filesList == nil {
		return nil
	}
	change := host.Change{Remove: []string{machine.FilesListPath}}
	if len(d.filesList.Files) > 0 {
		change = host.Change{Files: []host.File{d.filesList.File()}}
	}
	if _, err := s.Host.Apply(ctx, change); err != nil {
		return fmt.Errorf("finish the change of the files of replica %s: %w", s.Machine(), err)
	}
	return nil
}
