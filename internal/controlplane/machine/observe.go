// Package machine observes the machine of one replica and compares it with the desired state:
// files, units, processes and records. It changes nothing, except that Observed.Remove takes a
// replica off the machine. Every machine is observed by a query of query.go, and judged by pure
// functions.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Observed is a machine as observed in one round trip.
type Observed struct {
	Facts       host.Facts
	Record      Record
	creating    Record                 // the replica whose Create was interrupted; identity only
	RecordErr   error                  // one of the two cannot be parsed
	Rollback    *RollbackRecord        // what an interrupted change can be rolled back to
	Kubeconfigs map[string]string      // path → text without the private key
	Executables map[string]string      // component → path of the running program
	Written     map[string]WrittenFile // files of the user that the provider has written, by name
	encryption  map[string]string      // configurations of encryption that a takeover compares, by path: they have keys
	rewritten   map[string]string      // path → digest of what a takeover writes in another form; see Compared
	Problems    []string               // what prevents any change; only set by inspect
	NodeMissing bool                   // a kubelet is installed before static pods are created; only set by inspect
}

// Runtime returns what runs the components of the replica on the machine. Without a record, static pods are known by
// their manifests and definitions.
func (f Observed) Runtime() runtime.Runtime {
	held, _ := f.Identity()
	pods := runtime.Named(component.StaticPod)
	if held.ClusterID == "" && slices.ContainsFunc(release.Components(), func(name string) bool {
		return pods.State(f.Facts, name).Load == "loaded"
	}) {
		return pods
	}
	return runtime.Named(held.Runtime)
}

// ForeignAPIServer describes what HasForeignAPIServer reports.
const ForeignAPIServer = "an API server without a record of this provider, such as one of kubeadm that is not imported"

// HasForeignAPIServer reports whether the machine has an API server, or a manifest for one, that no record describes.
func (f Observed) HasForeignAPIServer() bool {
	by := f.Runtime()
	return f.RecordErr == nil && f.Record.ClusterID == "" &&
		(ProcessExists(by.State(f.Facts, release.APIServer)) || by.InheritedDefinition(f.Facts, release.APIServer) != "")
}

// Digests returns the digests of the files on disk.
func (f Observed) Digests() map[string]string {
	out := make(map[string]string, len(f.Facts.Files))
	for path, state := range f.Facts.Files {
		out[path] = state.SHA256
	}
	return out
}

// Version returns the version of the running program, from its path; "" if none runs.
func (f Observed) Version(c string) string {
	return versionIn(strings.TrimSuffix(f.Executables[c], " (deleted)"), c)
}

// definedVersion returns the version that the definition of a component starts; "" if it cannot
// be parsed.
func (f Observed) definedVersion(c string) string {
	by := f.Runtime()
	definition, err := by.Parse(f.Facts.Files[by.Path(c)].Content)
	if err != nil {
		return ""
	}
	return versionIn(definition.Program, c)
}

// ImageRepository returns where the images of the static pods come from; "" if it is unknown, or there are none.
func (f Observed) ImageRepository() string {
	by := f.Runtime()
	definition, err := by.Parse(f.Facts.Files[by.Path(release.APIServer)].Content)
	if err != nil {
		return ""
	}
	return definition.ImageRepository
}

// EffectiveVersion returns the running version or, if none runs, the version that would be
// started.
func (f Observed) EffectiveVersion(c string) string {
	return cmp.Or(f.Version(c), f.definedVersion(c))
}

// Observe reads everything that decisions about s depend on.
func Observe(ctx context.Context, h *host.Host, s component.Replica) (Observed, error) {
	facts, err := h.Observe(ctx, Query(s))
	if err != nil {
		return Observed{}, fmt.Errorf("observe replica %s: %w", s.Machine(), err)
	}
	f := Interpret(facts)
	files := f.encryptionFiles(s)
	if len(files) == 0 {
		return f, nil
	}
	printed, err := h.Observe(ctx, host.Query{Script: PrintFiles(files)})
	if err != nil {
		return Observed{}, fmt.Errorf("read %s of replica %s: %w", strings.Join(files, " and "), s.Machine(), err)
	}
	f.encryption = PrintedFiles(printed.Output, files)
	return f, nil
}

// Other relevant paths on a machine.
const (
	installRoot = "/opt/kube"
	ManifestDir = component.KubernetesDir + "/manifests" // of a kubelet's static pods
	EtcdUnit    = "/etc/systemd/system/" + EtcdUnitName
	// EtcdPod is the definition of an etcd member on the same machine that runs as a static pod, and EtcdManifest what
	// the kubelet runs.
	EtcdPod      = "/etc/etcd/etcd.yaml"
	EtcdManifest = ManifestDir + "/etcd.yaml"
	etcdRecord   = "/etc/etcd/member.json" // says that the machine has a member
	kubeletConf  = component.KubernetesDir + "/kubelet.conf"
)

// PausedPaths are the marks of a replica that is stopped during a change of its etcd member, by whatever runs it.
func PausedPaths() []string {
	var paths []string
	for _, by := range runtime.All() {
		paths = append(paths, by.PausedPath())
	}
	return paths
}

// EtcdUnitName is the unit of an etcd member on the same machine.
const EtcdUnitName = "etcd.service"

// Interpret parses the answer to a query of this package.
func Interpret(facts host.Facts) Observed {
	f := Observed{
		Facts: facts, Kubeconfigs: Sections(facts.Output, plainKubeconfigs),
		Executables: Sections(facts.Output, release.Components()),
	}
	addConfigFiles(facts.Files, Sections(facts.Output, []string{component.FilesDir})[component.FilesDir])
	f.Written = ReadWrittenFiles(facts.Files[FilesListPath].Content)
	f.Record, f.RecordErr = ReadRecord(facts.Files[RecordPath].Content)
	if f.RecordErr == nil {
		if f.creating, f.RecordErr = ReadRecord(facts.Files[CreatingPath].Content); f.RecordErr != nil {
			f.RecordErr = fmt.Errorf("%s: %w", CreatingPath, f.RecordErr)
		}
	}
	f.Rollback = ReadRollbackRecord(facts.Files[RollbackRecordPath].Content)
	for name, text := range f.Executables {
		f.Executables[name] = strings.TrimSpace(text)
	}
	for _, name := range release.Components() {
		if program := f.Runtime().Program(facts, name); program != "" {
			f.Executables[name] = program
		}
	}
	return f
}

// HasReplicaOf reports whether a replica of the cluster is on the machine.
func (f Observed) HasReplicaOf(clusterID string) bool {
	return f.RecordErr == nil && f.Record.ClusterID == clusterID
}

// IsEmpty reports whether the machine has neither a unit nor a file that only a replica has. It
// implies that the machine is reachable. CA certificates do not count, because etcd and kubelet
// have them too.
func (f Observed) IsEmpty(s component.Replica) bool {
	for _, definition := range definitions() {
		if _, ok := f.Facts.Files[definition]; ok {
			return false
		}
	}
	for _, file := range OwnFiles(s) {
		if _, ok := f.Facts.Files[file]; ok {
			return false
		}
	}
	for _, unit := range f.Facts.Units {
		if unit.Active == "active" {
			return false
		}
	}
	for _, name := range component.Names() {
		if runtime.Of(s).State(f.Facts, name).Active == "active" {
			return false
		}
	}
	return true
}

// OwnFiles returns the files that only a replica has on a machine.
func OwnFiles(s component.Replica) []string {
	files := slices.Concat(component.SettingPaths(), component.KonnectivityFiles())
	files = append(files, RecordPath, CreatingPath, RollbackRecordPath, FilesListPath,
		component.AdminConf, component.ClientCA, component.SigningCA, component.CAKey, component.FrontProxyCA,
		component.EtcdClientCA, component.SAPub, component.SAKey, component.EncryptionConfigPath)
	for _, c := range component.Certificates(s) {
		files = append(files, c.Path, component.KeyPath(c.Path))
	}
	for _, k := range component.Kubeconfigs(s) {
		if k.Path != component.AdminConf {
			files = append(files, k.Path)
		}
	}
	return files
}
