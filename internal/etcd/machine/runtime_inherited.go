package machine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// An inherited member is a static pod whose manifest kubeadm has written. The provider manages it as it is: what its
// own manifest has in addition comes with the next restart, which a difference of the configuration needs. Until then,
// the record has the digest of the CA pool that the member was taken over with.

// ClusterCAPath has the authority by which a cluster of kubeadm is identified.
var ClusterCAPath = path.Join(path.Dir(layout.PKIDir), "ca.crt")

// IsInherited reports whether the machine's member is inherited.
func (f Observed) IsInherited() bool {
	manifest, placed := f.Facts.Files[ManifestPath]
	return placed && f.isPod() && !staticpod.Own(manifest.Content)
}

// interpretInherited sets what is known of an inherited pod. Nothing says what its container has read. It runs with the
// files of the machine, or of the time when it was taken over.
func (f *Observed) interpretInherited() {
	if !f.IsInherited() {
		return
	}
	if _, running := f.Pod.Running(); !running {
		return
	}
	f.podNote[layout.CAPath] = f.Facts.Files[layout.CAPath].SHA256
	if f.Record != nil {
		f.podNote[layout.CAPath] = f.Record.Inherited
	}
}

// KeptManifest is the manifest of kubeadm that was kept when it was replaced. returnsPath is there if the member ran
// from it when it left the kubelet.
var (
	KeptManifest = path.Join(layout.Inherited, path.Base(ManifestPath))
	returnsPath  = path.Join(layout.Inherited, "."+layout.Product+".returns")
)

// returns reports whether the member gets the manifest of kubeadm back, byte for byte: it moves to a static pod, and
// the manifest that was kept says what s does. A start that was cut off is known by the record.
func (s Spec) returns(f Observed) bool {
	kept, there := f.Facts.Files[KeptManifest]
	_, ran := f.Facts.Files[returnsPath]
	_, unit := f.Facts.Files[layout.UnitPath]
	_, placed := f.Facts.Files[ManifestPath]
	_, defined := f.Facts.Files[layout.PodPath]
	begun := f.Record != nil && f.Record.Inherited != ""
	return there && ran && s.Runtime == StaticPod && !unit && !placed && (!defined || begun) &&
		len(s.differencesOf(kept)) == 0
}

// inheritedDifferences describes why an inherited member does not run as s wants it, beyond what a restart adds.
func (s Spec) inheritedDifferences(f Observed) []string {
	return s.differencesOf(f.Facts.Files[ManifestPath])
}

// differencesOf is inheritedDifferences for a manifest.
func (s Spec) differencesOf(manifest host.FileState) []string {
	have, err := staticpod.ParseInherited(manifest.Content)
	if err != nil {
		return []string{ManifestPath + ": " + err.Error()}
	}
	want, plain := s.pod(), s
	plain.ExtraArgs = nil
	flags := maps.Clone(have.Flags)
	for _, flag := range initialFlagNames {
		delete(flags, flag)
	}
	words := staticpod.FlagsDiffer(flags, want.Flags, ServerFlags(plain), s.sameListeners)
	if have.Image != want.Image {
		words = append(words, fmt.Sprintf("the image is %q, wanted %q", have.Image, want.Image))
	}
	if !maps.Equal(have.Environment, want.Environment) {
		words = append(words, "the variables of the environment are other ones")
	}
	if have.PatchWith(s.foreignMounts(have)) != want.Patch {
		words = append(words, "the patch is another one")
	}
	if have.Name != want.Name || have.Program != want.Program {
		words = append(words, fmt.Sprintf("it runs %s in a pod %s", have.Program, have.Name))
	}
	return words
}

// sameListeners reports whether the value of a flag in kubeadm's manifest becomes the wanted one by a listener that the
// provider adds. It comes with the next restart: until then, kubeadm's own probes and API server use what is there.
func (s Spec) sameListeners(flag, has, wants string) bool {
	switch flag {
	case release.MetricsURLsFlag:
		return release.WithMetricsURL(has) == wants
	case clientURLsFlag:
		return has == loopback6URL+","+s.ClientURL() && wants == "https://127.0.0.1:2379,"+has
	}
	return false
}

// foreignMounts returns the mounts of a member of kubeadm that neither kubeadm nor the provider gives it.
func (s Spec) foreignMounts(have staticpod.Inherited) []staticpod.Mount {
	return have.Foreign(append(slices.Clone(staticpod.Trusted), layout.PKIDir, s.Directory())...)
}

// inheritedRestart describes why an inherited member must be restarted to run with s, or returns "".
func (s Spec) inheritedRestart(f Observed) string {
	if words := s.inheritedDifferences(f); len(words) > 0 {
		return words[0]
	}
	anchors := s.Bundle.Anchors(pki.Etcd)
	if f.podNote[layout.CAPath] == Digest([]byte(anchors)) || f.Record == nil && f.trusts(anchors) {
		return ""
	}
	return "it was started with a different " + layout.CAPath
}

// trusts reports whether the CA pool of the machine has exactly the given authorities.
func (f Observed) trusts(anchors string) bool {
	raw := func(text string) []string {
		var all []string
		for _, c := range CertificatesOf(text) {
			all = append(all, string(c.Raw))
		}
		slices.Sort(all)
		return all
	}
	have := raw(f.Facts.Files[layout.CAPath].Content)
	return len(have) > 0 && slices.Equal(have, raw(anchors))
}

// TakesOver reports whether an inherited member is not managed yet.
func (f Observed) TakesOver() bool { return f.Record == nil && f.RecordErr == nil && f.IsInherited() }

// takeOverDrift describes what is missing of an inherited member that is not managed yet.
func (f Observed) takeOverDrift(s Spec) []string {
	if !f.TakesOver() {
		return nil
	}
	words := []string{layout.RecordPath + " is missing: kubeadm has created the member"}
	if cause := f.NotTakenOver(s); cause != "" {
		words = append(words, cause)
	}
	return words
}

// NotTakenOver describes why an inherited member cannot be taken over by s, or returns "". A change of the CA pool or
// of the runtime that is cut off before the record exists would not be known, and a version has no way back before.
func (f Observed) NotTakenOver(s Spec) string {
	if !f.TakesOver() {
		return ""
	}
	if other := f.OtherRuntime(s); other != "" {
		return other + fmt.Sprintf(": take the member over with runtime = %q first, and change it with a later apply",
			StaticPod)
	}
	if version := f.inheritedVersion(); version != s.Version {
		return fmt.Sprintf("%s runs etcd %s: take the member over with this version first, and change it with a later apply",
			f.Label(), problem.Quote(version))
	}
	if f.trusts(s.Bundle.Anchors(pki.Etcd)) {
		return ""
	}
	return layout.CAPath + " on " + f.Label() + " has other authorities than the bundle: take the member over first, " +
		"and rotate the etcd CA with a later apply"
}

// UnhealthyInherited describes why an inherited member cannot be taken over yet: the cluster does not vouch for it. It
// returns "" if it does, or if the member is managed.
func (f Observed) UnhealthyInherited(s Spec, v *membership.View, now time.Time) string {
	if !f.TakesOver() || f.RecordLost(s, v) {
		return ""
	}
	words := []string{"kubeadm has created the member on the machine, and the cluster does not list it as healthy"}
	for _, l := range []pki.Leaf{pki.EtcdServer(s.Name, s.Host.Address()), pki.EtcdPeer(s.Name, s.Host.Address())} {
		words = append(words, s.Bundle.Check(l, f.Facts.Files[CertificatePath(l)].Content, now)...)
	}
	return strings.Join(words, "; ")
}

// inheritedVersion returns the version in kubeadm's manifest; "" if there is none.
func (f Observed) inheritedVersion() string {
	pod, err := staticpod.ParseInherited(f.Facts.Files[ManifestPath].Content)
	if err != nil {
		return ""
	}
	return versionOfImage(pod.Image)
}

// inheritedDigest returns Record.Inherited for a member that s takes over, or has taken over, or that returns.
func (f Observed) inheritedDigest(s Spec) string {
	switch {
	case s.returns(f):
		return Digest([]byte(s.Bundle.Anchors(pki.Etcd))) // what it is started with
	case !f.IsInherited():
		return ""
	case f.Record != nil:
		return f.Record.Inherited
	}
	return Digest([]byte(s.Bundle.Anchors(pki.Etcd)))
}

// readInherited derives a member from kubeadm's manifest.
func readInherited(h *host.Host, f Observed, facts host.Facts) (Imported, error) {
	pod, err := staticpod.ParseInherited(f.Facts.Files[ManifestPath].Content)
	if err != nil {
		return Imported{}, notImported(h, ManifestPath+": "+err.Error(), "import a member that kubeadm has created")
	}
	dir := cmp.Or(pod.Flags["data-dir"], layout.DefaultDataDir)
	version := versionOfImage(pod.Image)
	ca := CertificatesOf(facts.Files[ClusterCAPath].Content)
	switch {
	case len(pod.Other) > 0:
		return Imported{}, notImported(h, ManifestPath+" has what a manifest of the provider cannot have: "+
			strings.Join(pod.Other, ", "), "remove it from the manifest, one member at a time, if it is not needed")
	case release.ValidateVersion(version) != nil:
		return Imported{}, notImported(h, fmt.Sprintf("the image %q does not name a version of etcd that the provider "+
			"knows", pod.Image), "upgrade etcd with kubeadm first, to an image that is tagged by its version")
	case len(ca) == 0:
		return Imported{}, notImported(h, ClusterCAPath+", which identifies the cluster, is not on the machine",
			"copy it there from a machine with an API server")
	case ValidateDataDir(dir) != nil:
		return Imported{}, notImported(h, ValidateDataDir(dir).Error(), "use another data directory")
	case ValidateName(pod.Flags["name"]) != nil:
		return Imported{}, notImported(h, ValidateName(pod.Flags["name"]).Error(), "replace the member by one with another "+
			"name")
	case pod.Flags["advertise-client-urls"] != membership.ClientURL(h.Address()):
		return Imported{}, notImported(h, fmt.Sprintf("its member is advertised at %q", pod.Flags["advertise-client-urls"]),
			"import it by that address, which the cluster uses for the machine")
	}
	out := Imported{
		ClusterID: pki.ClusterIDOf(ca[0].Raw), Name: pod.Flags["name"], Version: version, Runtime: StaticPod,
		Image: pod.Image, DataDir: dir, SnapshotsKept: orDefault(0), Environment: pod.Environment,
		ArchivesKept: configured{}.archivesKept(), Patch: pod.PatchWith(Spec{DataDir: dir}.foreignMounts(pod)).YAML(),
	}
	flags := maps.Clone(pod.Flags)
	out.Peers, out.Alone = listedPeers(facts.Output)
	if out.Alone {
		maps.Copy(out.Peers, initialPeers(flags["initial-cluster"]))
	}
	out.Peers[out.Name] = h.Address()
	for _, flag := range initialFlagNames {
		delete(flags, flag)
	}
	s := Spec{Name: out.Name, Host: h, Version: version, DataDir: dir}
	out.ExtraArgs = extraArgs(s, flags, nil)
	s.ExtraArgs, s.Runtime, s.Image, s.Environment = out.ExtraArgs, StaticPod, out.Image, out.Environment
	s.Patch = out.Patch
	s.Bundle = &pki.Bundle{}
	words := s.inheritedDifferences(f)
	err = errors.Join(release.ValidateExtraArgs(version, out.ExtraArgs), ValidateEnvironment(out.Environment),
		s.CheckPatch())
	if err != nil {
		words = append(words, problem.Line(err.Error()))
	}
	if len(words) > 0 {
		return Imported{}, notImported(h, "its member runs with what the provider sets otherwise: "+strings.Join(words, "; "),
			"change that in "+ManifestPath+", one member at a time, and import it then")
	}
	out.Added = s.addedByRestart(pod)
	return out, nil
}

// addedByRestart describes what the next restart of an inherited member brings. Values that differ are those that
// sameListeners accepts.
func (s Spec) addedByRestart(have staticpod.Inherited) []string {
	var words []string
	for flag, value := range s.pod().Flags {
		if has, there := have.Flags[flag]; !there || has != value {
			words = append(words, fmt.Sprintf("--%s=%s", flag, value))
		}
	}
	slices.Sort(words)
	return words
}

// versionOfImage returns the version of etcd in the tag of an image, "3.6.5" for "registry.k8s.io/etcd:3.6.5-0"; "" if
// there is no tag.
func versionOfImage(image string) string {
	version, _, _ := strings.Cut(staticpod.Tag(image), "-")
	return version
}

// initialPeers returns the members that --initial-cluster names, name → address.
func initialPeers(cluster string) map[string]string {
	peers := map[string]string{}
	for entry := range strings.SplitSeq(cluster, ",") {
		name, url, _ := strings.Cut(entry, "=")
		if at := membership.HostInURL(url); ValidateName(name) == nil && at != "" {
			peers[name] = at
		}
	}
	return peers
}
