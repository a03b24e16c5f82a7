package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// An inherited component is one that kubeadm has defined. Nothing notes what it was started with. When the replica is
// taken over, its files are those that the component has read, and the record keeps their digests (Record.Inherited).
// From then on a change of one is known, as it is by the note of other components.

// sharedFiles are the files that an inherited component may have read instead of those of the provider: kubeadm has one
// file for all authorities, and its programs reload it or not.
var sharedFiles = []string{
	component.CACert, component.ClientCA, component.FrontProxyCA, component.EtcdClientCA, component.SAPub, component.SAKey,
	component.CAKey, component.SigningCA,
}

// readBy are the files that only one component reads.
var readBy = map[string]string{
	component.EncryptionConfigPath:  release.APIServer,
	component.ControllerManagerConf: release.ControllerManager,
	component.SchedulerConf:         release.Scheduler,
}

// inheritedInputs are the files whose change restarts an inherited component.
func inheritedInputs(c component.Component) []string {
	all := append(slices.Clone(sharedFiles), c.Inputs...)
	slices.Sort(all)
	return slices.Compact(all)
}

// IsInherited reports whether any component on the machine is inherited.
func (f Observed) IsInherited() bool {
	by := runtime.Named(component.StaticPod)
	return slices.ContainsFunc(release.Components(), func(name string) bool {
		return by.InheritedDefinition(f.Facts, name) != ""
	})
}

// TakesOver reports whether the replica on the machine is one of kubeadm that the provider does not manage yet.
func (f Observed) TakesOver(s component.Replica) bool {
	return f.RecordErr == nil && f.Record.ClusterID == "" && f.creating.ClusterID == "" &&
		s.Runtime == component.StaticPod && f.IsInherited()
}

// StartNote returns the digests of the files that the process of a component has read, as far as they are known.
func (f Observed) StartNote(by runtime.Runtime, name string) map[string]string {
	if by.InheritedDefinition(f.Facts, name) != "" {
		note := maps.Clone(f.Record.Inherited)
		maps.DeleteFunc(note, func(file, _ string) bool { return readBy[file] != "" && readBy[file] != name })
		return note
	}
	return by.StartNote(f.Facts, name)
}

// inheritedReason returns why an inherited component must be restarted, or "". after are the digests of the files once
// they are written. Before the provider has written its record, what is on the machine is what was read.
func inheritedReason(c component.Component, f Observed, differences []string, after map[string]string) string {
	if len(differences) > 0 {
		return differences[0]
	}
	takenOver := f.Record.ClusterID != ""
	if takenOver && f.Record.Inherited == nil {
		return "nothing says what it was started with"
	}
	for _, file := range inheritedInputs(c) {
		read, wanted := f.Facts.Files[file].SHA256, after[file]
		if takenOver {
			read = f.Record.Inherited[file]
		}
		if read != "" && wanted != "" && read != wanted {
			return "it was started with another " + file
		}
	}
	return ""
}

// Returning lists the components that get the manifests of kubeadm back, byte for byte, when the replica moves to
// static pods: those that were kept, and say what s does. after are the digests of the files once they are written. A
// file that kubeadm may have instead of one of the provider must be as it was when the replica was taken over.
func (f Observed) Returning(s component.Replica, after map[string]string) []string {
	if f.Record.Inherited == nil {
		return nil
	}
	for _, file := range sharedFiles {
		if read := f.Record.Inherited[file]; read != "" && read != after[file] {
			return nil
		}
	}
	by := runtime.Of(s)
	var names []string
	for _, c := range component.Of(s) {
		if by.Returns(f.Facts, c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// KeepInherited sets what the record keeps of inherited components, for files with the given digests. A rollback may go
// back to such a component, and so may a replica that runs as units. returning are those of Returning.
func (r *Record) KeepInherited(s component.Replica, f Observed, digests map[string]string, returning []string) {
	inherited, known := f.IsInherited(), f.Record.ClusterID != ""
	switch {
	case known && (inherited || s.Previous != nil || s.Runtime != component.StaticPod):
		r.Inherited = maps.Clone(f.Record.Inherited)
		for _, c := range component.Of(s) {
			for _, file := range c.Inputs {
				if slices.Contains(returning, c.Name) && !slices.Contains(sharedFiles, file) && digests[file] != "" {
					r.Inherited[file] = digests[file]
				}
			}
		}
		return
	case !inherited && s.Previous == nil && len(returning) == 0:
		return
	}
	r.Inherited = map[string]string{}
	for _, c := range component.Of(s) {
		for _, file := range inheritedInputs(c) {
			read := cmp.Or(f.Facts.Files[file].SHA256, digests[file]) // what was not there has not been read
			if len(returning) > 0 {
				read = digests[file]
			}
			if read != "" {
				r.Inherited[file] = read
			}
		}
	}
}

// takeOverProblems returns why a replica of kubeadm cannot be taken over. A file that would get other content might
// have been read by a running component, and belong to somebody else.
func takeOverProblems(s component.Replica, f Observed) []string {
	var failed []string
	ca := f.Facts.Files[component.CACert].Content
	if strings.TrimSpace(ca) != strings.TrimSpace(s.Bundle.Roots(pki.Kubernetes)) {
		failed = append(failed, component.CACert+" is not exactly the authority of the bundle")
	}
	for _, file := range component.Files(s) {
		state, there := f.Facts.Files[file.Path]
		if there && file.Path != component.CACert && state.SHA256 != Digest(file.Content) {
			failed = append(failed, file.Path+" is there with other content")
		}
	}
	for _, file := range component.UnwantedFiles(s) {
		if _, there := f.Facts.Files[file]; there && file != component.AdminConf {
			failed = append(failed, file+" is there, and would be removed")
		}
	}
	for _, k := range component.Kubeconfigs(s) {
		if k.Path == component.AdminConf || k.Path == component.LeaseConf { // no component reads them
			continue
		}
		if problems := KubeconfigProblems(s, k, f, time.Now()); len(problems) > 0 {
			failed = append(failed, problems[0]+"; it is read at the start only, so it is changed by a later apply: renew it "+
				"with kubeadm, or set a shorter early_renewal, until the replica is taken over")
		}
	}
	return failed
}

// manifestProblems lists the manifests of components that somebody else runs.
func manifestProblems(f Observed) []string {
	var failed []string
	for _, manifest := range f.Facts.Dirs[ManifestDir] {
		if name := strings.TrimSuffix(manifest, ".yaml"); slices.Contains(release.Components(), name) {
			failed = append(failed, fmt.Sprintf("a kubelet runs %s from %s/%s", name, ManifestDir, manifest))
		}
	}
	return failed
}
