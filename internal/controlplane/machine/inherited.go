package machine

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
var readBy = func() map[string]string {
	by := map[string]string{
		component.EncryptionConfigPath:  release.APIServer,
		component.ControllerManagerConf: release.ControllerManager,
		component.SchedulerConf:         release.Scheduler,
	}
	for _, file := range component.SettingPaths() {
		by[file] = release.APIServer
	}
	return by
}()

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

// TakesOverFirst reports whether the replica on the machine is one of kubeadm that has to be taken over as static pods
// before it can have the runtime of s.
func (f Observed) TakesOverFirst(s component.Replica) bool {
	asPods := s
	asPods.Runtime = component.StaticPod
	return s.Runtime != component.StaticPod && f.TakesOver(asPods) && f.sharesCA(s)
}

// BeforeTakeover returns what a takeover by s can be rolled back to: what kubeadm has defined. It returns nil if that
// is not complete. The port is that of s, because the kubeconfigs of the components must have it.
func (f Observed) BeforeTakeover(s component.Replica) *RollbackRecord {
	now := f.RollbackRecord(s.Bundle.Generations())
	now.Port, now.Etcd = s.APIPort(), s.EtcdURLs
	return ReadRollbackRecord(string(now.File().Content))
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

// means reports whether a file on the machine has what the provider writes there in another form: certificates or
// public keys with a text before them, as openssl writes it, a private key with other newlines at its end, or an
// encryption configuration that was written by hand.
func (f Observed) means(s component.Replica, want host.File) bool {
	have := f.Facts.Files[want.Path]
	switch want.Path {
	case component.EncryptionConfigPath:
		return component.SameEncryption(f.encryption[want.Path], s.Bundle)
	case component.SAPub:
		return samePublicKeys(have.Content, string(want.Content))
	case component.SAKey, component.CAKey:
		return sameLines(have.SHA256, string(want.Content))
	}
	return path.Ext(want.Path) == ".crt" && sameCertificates(have.Content, string(want.Content))
}

// sameLines reports whether a digest is that of a text with none or two newlines at its end. An import reads a file
// without its last newlines, and no key is read to compare it.
func sameLines(digest, text string) bool {
	text = strings.TrimRight(text, "\n")
	return digest == Digest([]byte(text)) || digest == Digest([]byte(text+"\n\n"))
}

// samePublicKeys reports whether two texts have the same public keys in the same order, and any.
func samePublicKeys(a, b string) bool {
	have, err := pki.PublicKeysIn(a)
	if err != nil {
		return false
	}
	want, err := pki.PublicKeysIn(b)
	return err == nil && len(want) > 0 && slices.Equal(have, want)
}

// sameCertificates reports whether two texts have the same certificates in the same order, and any.
func sameCertificates(a, b string) bool {
	all := pki.CertificatesIn(a)
	return len(all) > 0 && slices.Equal(all, pki.CertificatesIn(b))
}

// encryptionFiles lists the configurations of encryption at rest that a takeover has to compare: one at the provider's
// path that is not as the provider writes it, and the one that the API server reads elsewhere. They have keys, so
// nothing else reads them.
func (f Observed) encryptionFiles(s component.Replica) []string {
	if !f.TakesOver(s) {
		return nil
	}
	var files []string
	for _, file := range component.Files(s) {
		state, there := f.Facts.Files[file.Path]
		if file.Path == component.EncryptionConfigPath && there && state.SHA256 != Digest(file.Content) {
			files = append(files, file.Path)
		}
	}
	if at, err := f.OtherEncryption(); err == nil && at != "" {
		files = append(files, at)
	}
	return files
}

// OtherEncryption returns the configuration of encryption at rest that an inherited API server reads, if that is not
// the one at the provider's path; "" if there is none.
func (f Observed) OtherEncryption() (string, error) {
	at, err := runtime.InheritedEncryption(f.Facts)
	if at == component.EncryptionConfigPath {
		at = ""
	}
	return at, err
}

// encryptionProblem returns why the API server would read other keys after its next restart, or "".
func (f Observed) encryptionProblem(s component.Replica) string {
	at, err := f.OtherEncryption()
	switch {
	case err != nil:
		return err.Error()
	case at == "" || component.SameEncryption(f.encryption[at], s.Bundle):
		return ""
	}
	return "the API server encrypts at rest by " + at + ", which does not say what the bundle does"
}

// Compared returns f, with the digests of the files that a takeover by s writes in another form. That is no change for
// what has read them.
func (f Observed) Compared(s component.Replica) Observed {
	f.rewritten = map[string]string{}
	if !f.TakesOver(s) {
		return f
	}
	for _, file := range component.Files(s) {
		if _, there := f.Facts.Files[file.Path]; there && f.means(s, file) {
			f.rewritten[file.Path] = Digest(file.Content)
		}
	}
	return f
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
		read, wanted := cmp.Or(f.rewritten[file], f.Facts.Files[file].SHA256), after[file]
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
			// What was not there has not been read.
			read := cmp.Or(f.rewritten[file], f.Facts.Files[file].SHA256, digests[file])
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
	if !sameCertificates(f.Facts.Files[component.CACert].Content, s.Bundle.Roots(pki.Kubernetes)) {
		failed = append(failed, component.CACert+" is not exactly the authority of the bundle")
	}
	for _, file := range component.Files(s) {
		state, there := f.Facts.Files[file.Path]
		if there && file.Path != component.CACert && state.SHA256 != Digest(file.Content) && !f.means(s, file) {
			failed = append(failed, file.Path+" is there with other content")
		}
	}
	if text := f.encryptionProblem(s); text != "" {
		failed = append(failed, text)
	}
	for _, file := range component.UnwantedFiles(s) {
		if _, there := f.Facts.Files[file]; there && file != component.AdminConf {
			failed = append(failed, file+" is there, and would be removed")
		}
	}
	for _, k := range component.Kubeconfigs(s) {
		if readBy[k.Path] == "" {
			continue
		}
		if problem := kubeconfigProblem(s, k, f.Widened(s), time.Now()); problem != "" {
			failed = append(failed, problem)
		}
	}
	return failed
}

// kubeconfigProblem returns why a takeover cannot keep the kubeconfig of a component, which reads it at its start only,
// and what to do, or "". Only a certificate is renewed: kubeadm keeps the rest of such a file, also in an upgrade.
func kubeconfigProblem(s component.Replica, k component.Kubeconfig, f Observed, now time.Time) string {
	access, others := "", f // others is f with the mode and the owner that the file should have
	if state, there := f.Facts.Files[k.Path]; there {
		access = accessProblem(state, false, k.Owner)
		state.Mode, state.Owner, state.Group = component.SecretMode, k.Owner, k.Owner
		others = f.with(k.Path, state)
	}
	young := s
	young.EarlyRenewal = time.Nanosecond // a certificate may live shorter than early_renewal
	if lasting := KubeconfigProblems(young, k, others, f.issuedAt(k)); len(lasting) > 0 {
		return fmt.Sprintf("%s; %s reads it at its start only: on one machine at a time, move the file away, run "+
			"kubeadm init phase kubeconfig %s with a configuration whose localAPIEndpoint is this machine, and restart the "+
			"static pod", lasting[0], readBy[k.Path], strings.TrimSuffix(path.Base(k.Path), ".conf"))
	}
	if access != "" {
		return fmt.Sprintf("%s %s: run chown %s:%s and chmod %04o on it; whoever could read it may have its key: renew it "+
			"after the takeover, by a longer early_renewal", k.Path, access, k.Owner, k.Owner, component.SecretMode)
	}
	if problems := KubeconfigProblems(s, k, f, now); len(problems) > 0 {
		return problems[0] + "; it is read at the start only, so it is changed by a later apply: renew it with kubeadm, or " +
			"set a shorter early_renewal, until the replica is taken over"
	}
	return ""
}

// issuedAt returns when the certificate of a kubeconfig was issued: then, nothing was wrong with its age.
func (f Observed) issuedAt(k component.Kubeconfig) time.Time {
	kubeconfig, _ := pki.ParseKubeconfig(f.Kubeconfigs[k.Path])
	certificate, _ := pki.Inspect(kubeconfig.ClientCertificate)
	return certificate.NotBefore
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
