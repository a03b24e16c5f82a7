package machine

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// toolsAnnotation has the directory of the tools of the pod's version. The scripts on the machine read it.
const toolsAnnotation = "terraform-provider-kube/tools"

// advertiseAnnotation is the one by which kubeadm finds members.
const advertiseAnnotation = "kubeadm.kubernetes.io/etcd.advertise-client-urls"

// imageRepository is that of kubeadm.
const imageRepository = "registry.k8s.io/etcd"

// ManifestPath is the manifest that the kubelet runs.
var ManifestPath = staticpod.Path(layout.Product)

// DefaultImage returns kubeadm's image of a version of etcd.
func DefaultImage(version string) string { return imageRepository + ":" + version + "-0" }

var imageForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,500}$`)

// ValidateImage accepts the reference of an image, with a tag or a digest.
func ValidateImage(image string) error {
	switch {
	case !imageForm.MatchString(image):
		return fmt.Errorf("image %q is not the reference of a container image", image)
	case !strings.Contains(path.Base(image), ":"):
		return fmt.Errorf("image %q has neither a tag nor a digest", image)
	}
	return nil
}

// ValidatePatch returns why text is not a patch that the pod of a member can have.
func ValidatePatch(text string) error {
	return staticpod.Pod{
		Name: layout.Product, Image: imageRepository, Program: layout.Product,
		Mounts: []staticpod.Mount{
			{Name: "etcd-certs", Path: layout.PKIDir},
			{Name: "etcd-data", Path: layout.DefaultDataDir},
			{Name: "start-allowed", Path: layout.StartGuard},
		},
	}.ValidatePatch(text)
}

// CheckPatch returns why the pod of s cannot have its patch.
func (s Spec) CheckPatch() error {
	if s.Runtime != StaticPod || s.Patch == "" {
		return nil
	}
	return s.pod().ValidatePatch(s.Patch)
}

// CheckImage returns why the pod of s cannot have its image: its tag names another version of etcd, which the rules for
// upgrades would not see. An image whose tag names no version may have any.
func (s Spec) CheckImage() error {
	version := versionOfImage(s.Image)
	if _, _, err := release.Parse(version); s.Runtime != StaticPod || err != nil || version == s.Version {
		return nil
	}
	return fmt.Errorf("image %q is of etcd %s, and version is %s", s.Image, version, s.Version)
}

// ContainerImage returns the image of the member.
func (s Spec) ContainerImage() string {
	if s.Image == "" {
		return DefaultImage(s.Version)
	}
	return s.Image
}

// pod returns the member as a static pod in kubeadm's form. It runs as root, as kubeadm's does: the ID of another user
// is known only on the machine, and a plan has to know the manifest.
func (s Spec) pod() staticpod.Pod {
	flags := maps.Clone(ServerFlags(s))
	maps.Copy(flags, s.initial)
	patch, _ := staticpod.ParsePatch(s.Patch) // ValidatePatch refuses what is none
	return staticpod.Pod{
		Patch: patch,
		Name:  layout.Product, Image: s.ContainerImage(), Program: layout.Product, Flags: flags, Environment: s.Environment,
		Inputs: map[string]string{layout.CAPath: Digest([]byte(s.Bundle.Anchors(pki.Etcd)))},
		Mounts: []staticpod.Mount{
			{Name: "etcd-certs", Path: layout.PKIDir, ReadOnly: true, Type: "Directory"},
			{Name: "etcd-data", Path: s.Directory(), Type: "Directory"},
			// Its path is a link: see Spec.guardTarget.
			{Name: "start-allowed", Path: layout.StartGuard, ReadOnly: true, Type: "Directory"},
		},
		Requests:  map[string]string{"cpu": "100m", "memory": "100Mi"},
		Liveness:  memberProbe("/livez", 10, 8),
		Readiness: memberProbe("/readyz", 1, 3),
		Startup:   memberProbe("/readyz", 10, startupFailures),
		Annotations: map[string]string{
			advertiseAnnotation: s.ClientURL(), toolsAnnotation: ArtifactDir(s.Version),
		},
	}
}

// startupFailures is how many times the startup probe may fail: for a day. A member without a quorum is not ready until
// there is one, and killing it does not help, so the kubelet must not.
const startupFailures = 8640

func memberProbe(url string, period, failures int) *staticpod.Probe {
	return &staticpod.Probe{
		Host: "127.0.0.1", Path: url, Port: 2381, Scheme: "HTTP", Delay: 10 * (period / 10), Period: period, Timeout: 15,
		Failures: failures,
	}
}

// guardTarget returns the target of the link StartGuard of an established member: etcd's directory in the data
// directory. The kubelet does not start the pod if the target of its mount is missing, and a container runtime cannot
// create it through the link. So an established member whose data directory was emptied does not start: neither as a
// new cluster, by the flags with which it was bootstrapped, nor under its old identity without its data. Until the
// member is established, the target is a directory that exists.
func (s Spec) guardTarget() string { return s.Directory() + "/member" }

// initialFlagNames are the flags by which a member forms or joins its cluster. A unit gets them from bootstrap.env. In
// a manifest they remain, as kubeadm's do: etcd ignores them once it has data, and a change would be a restart.
var initialFlagNames = map[string]string{
	"ETCD_INITIAL_CLUSTER":       "initial-cluster",
	"ETCD_INITIAL_CLUSTER_STATE": "initial-cluster-state",
	"ETCD_INITIAL_CLUSTER_TOKEN": "initial-cluster-token",
}

// initialFlags returns the variables of bootstrap.env as flags.
func initialFlags(env string) map[string]string {
	flags := map[string]string{}
	for name, value := range ParseEnvironment(env) {
		if flag, ok := initialFlagNames[name]; ok {
			flags[flag] = value
		}
	}
	return flags
}

// established returns a manifest without the flags of the bootstrap, which are no difference.
func established(file host.FileState) host.FileState {
	p, err := staticpod.Parse(file.Content)
	if err != nil || string(p.Manifest()) != file.Content {
		return file
	}
	for _, flag := range initialFlagNames {
		delete(p.Flags, flag)
	}
	text := p.Manifest()
	file.Content, file.SHA256, file.Size = string(text), Digest(text), int64(len(text))
	return file
}

// interpretPod sets what is known of the pod. The running container has noted the digest of its manifest: if that is
// the one that is placed, then it has read that.
func (f *Observed) interpretPod() {
	placed := f.Facts.Files[ManifestPath]
	f.Facts.Files = maps.Clone(f.Facts.Files)
	for _, p := range RuntimePaths {
		if file, ok := f.Facts.Files[p]; ok {
			f.Facts.Files[p] = established(file)
		}
	}
	f.Guard = guardIn(f.Facts.Output)
	f.podNote = map[string]string{}
	container, running := f.Pod.Running()
	if !running {
		// The kubelet tries again and again to mount the guard. For a unit, the assertion fails.
		_, pending := f.Facts.Files[layout.EnvPath]
		if !f.Data && !pending && f.Unit.Active == "activating" {
			f.Unit.Active, f.Unit.Sub, f.Unit.Result = "failed", "failed", "assert"
		}
		return
	}
	f.interpretInherited()
	maps.Copy(f.podNote, container.Note)
	delete(f.podNote, staticpod.Self)
	p, err := staticpod.Parse(placed.Content)
	if err == nil && p.Note()[staticpod.Self] == container.Note[staticpod.Self] {
		f.podNote[layout.PodPath] = f.Facts.Files[ManifestPath].SHA256
	}
}

// guardIn returns the target of the link StartGuard in a report; "" if it is not a path.
func guardIn(output string) string {
	for line := range strings.Lines(output) {
		if target, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "guard\t"); ok {
			if layout.PlainPath.MatchString(target) {
				return target
			}
			return ""
		}
	}
	return ""
}

// podQuestions returns the script that reports how the pod of the machine runs, and whether that of s can.
func (s Spec) podQuestions() host.Script {
	image := ""
	if s.Runtime == StaticPod {
		image = s.ContainerImage()
	}
	return runtimeFunctions() + "member_report " + host.Words(image) + "\n"
}

// podProblems lists what keeps the pod of s from running on the machine.
func (s Spec) podProblems(f Observed) []string {
	if s.Runtime != StaticPod {
		return nil
	}
	problems := f.Pod.Problems()
	if s.installsNode(f) {
		problems = node.Read(f.Facts).Problems()
	}
	if manifest, placed := f.Facts.Files[ManifestPath]; placed && f.Record == nil &&
		!staticpod.Own(manifest.Content) {
		problems = append(problems, ManifestPath+" is the manifest of an etcd that the provider does not manage: import its "+
			"member; or use another machine; or move it away when its member has left its cluster")
	}
	if len(f.Pod.Duplicates) > 0 && !f.isPod() {
		problems = append(problems, "the kubelet runs a pod etcd from "+strings.Join(f.Pod.Duplicates, ", ")+
			": move the file away")
	}
	return problems
}

// installsNode reports whether a kubelet is installed before the member is created.
func (s Spec) installsNode(f Observed) bool {
	return s.Runtime == StaticPod && s.InstallKubelet != nil && node.Read(f.Facts).Lacks()
}

// installNode installs containerd and a kubelet on a machine that has none.
func installNode(ctx context.Context, s Spec, f Observed) error {
	if !s.installsNode(f) {
		return nil
	}
	if err := node.Install(ctx, s.Host, s.Source, *s.InstallKubelet); err != nil {
		return &problem.Problem{
			Summary: "Kubelet not installed", Host: f.Label(), Attribute: "install_kubelet", Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.", Next: "fix this on the machine, then apply again: the " +
				"installation continues",
		}
	}
	return nil
}

// HasNode reports whether containerd and a kubelet have been installed on the machine, for whatever member or replica.
func (f Observed) HasNode() bool { return node.Recorded(f.Facts.Files) }

// RemoveNode removes containerd and the kubelet that were installed, unless a replica still needs them, and then the
// record of the member, of which nothing else is left.
func RemoveNode(ctx context.Context, s Spec) error {
	return node.Remove(ctx, s.Host, layout.RecordPath, forgetScript()+host.Flush(layout.ConfigDir))
}

// missingImage describes the image of s if the machine, with a pod as its member, does not have it.
func (s Spec) missingImage(f Observed) []string {
	if s.Runtime != StaticPod || !f.Pod.Answers || f.Pod.HasImage || !f.isPod() {
		return nil
	}
	return []string{"image " + s.ContainerImage()}
}

// imageIn returns the image of the static pod in a definition; "" if it is none.
func imageIn(definition string) string {
	p, err := staticpod.Parse(definition)
	if err != nil {
		return ""
	}
	return p.Image
}

// PreparedOn returns s as far as its version is prepared on the machine f; own is that of s. A member there that has
// another runtime, or another image, gets only the programs: its image is not that of s, and comes in its own turn. A
// kubelet does so too.
func (s Spec) PreparedOn(f, own Observed) Spec {
	if f.Address == own.Address {
		return s
	}
	s.InstallKubelet = nil
	if !f.isPod() || imageIn(f.Definition()) != imageIn(own.Definition()) {
		s.Runtime = Systemd // whose programs a pod has too
	}
	return s
}

// RunsDefinition reports whether the pod of the machine was started with the definition of s, which names its image.
func (f Observed) RunsDefinition(s Spec) bool {
	return s.Runtime == StaticPod && f.isPod() && f.StartedWith()[layout.PodPath] == Digest(s.definition().Content)
}

// podArchive is the name of the archive of the image, beside etcd's programs.
const podArchive = "etcd.tar"

func (s Spec) podImage() staticpod.Image {
	return staticpod.Image{
		Reference: s.ContainerImage(),
		Archive:   host.Artifact{Product: layout.Product, Version: s.Version, Name: podArchive},
	}
}

// provideImage pulls or imports the image of s if the machine does not have it: before anything is stopped.
func provideImage(ctx context.Context, m Machine, s Spec, f Observed) error {
	if s.Runtime != StaticPod {
		return nil
	}
	if !f.Pod.HasImage {
		problem.Progress(ctx, "etcd %s: getting the image %s", s.Name, s.ContainerImage())
	}
	if err := staticpod.ProvideForStart(ctx, m, s.Source, []staticpod.Image{s.podImage()}); err != nil {
		return &problem.Problem{
			Summary: "etcd image missing", Host: f.Label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.",
			Next: "check that the machine reaches the registry of " + s.ContainerImage() + " and that it has the image; or " +
				"put an archive of it at etcd-v" + s.Version + "/" + podArchive + " in artifacts.directory; or import the image " +
				"on the machine; or set image",
		}
	}
	return nil
}

// podDrift describes how the machine differs for the pod, apart from its manifest.
func (f Observed) podDrift() []string {
	var words []string
	for _, file := range f.Pod.Duplicates {
		words = append(words, fmt.Sprintf("%s is another manifest of the pod: the kubelet runs every file there, "+
			"whatever its name ends in", file))
	}
	if f.Pod.Reported && !f.Pod.Answers {
		words = append(words, "the container runtime does not answer: start it")
	}
	if f.Pod.Reported && f.Pod.Kubelet != "active" {
		words = append(words, fmt.Sprintf("kubelet.service is %s, wanted active: start it", f.Pod.Kubelet))
	}
	return words
}

// manifestDrift describes how the manifest that the kubelet runs differs.
func (s Spec) manifestDrift(f Observed) []string {
	file, ok := f.Facts.Files[ManifestPath]
	if !ok {
		return []string{ManifestPath + " is missing"}
	}
	if f.IsInherited() {
		return append(s.inheritedDifferences(f), s.guardDrift(f)...)
	}
	want := s.pod()
	if file.Content == string(want.Manifest()) {
		return s.guardDrift(f)
	}
	have, err := staticpod.Parse(file.Content)
	if err != nil {
		return append([]string{ManifestPath + " was edited manually: " + err.Error()}, s.guardDrift(f)...)
	}
	words := staticpod.Differences(have, want)
	if len(words) == 0 {
		words = append(words, ManifestPath+" was edited manually")
	}
	return append(words, s.guardDrift(f)...)
}

// guardDrift describes a guard that would let an established member start without its data.
func (s Spec) guardDrift(f Observed) []string {
	if f.Pending || f.Guard == s.guardTarget() {
		return nil
	}
	return []string{fmt.Sprintf("%s leads to %q, wanted %q", layout.StartGuard, f.Guard, s.guardTarget())}
}

// guardRepair returns what sets the guard right.
func (s Spec) guardRepair(f Observed) host.Script {
	if !f.isPod() || len(s.guardDrift(f)) == 0 {
		return ""
	}
	return runtimeFunctions() + "member_guard\n"
}

// podRestartReason describes why the pod must be restarted although its container was started as s wants it, or
// returns "". The kubelet starts a container whenever it likes, so what is on the disk may have been read.
func (s Spec) podRestartReason(f Observed) string {
	if s.Runtime != StaticPod {
		return ""
	}
	if len(f.Pod.Duplicates) > 0 {
		return "another manifest of the pod is moved away"
	}
	for _, file := range FixedFiles(s) {
		if file.Path != layout.PodPath && !f.IsInherited() && f.Facts.Files[file.Path].SHA256 != Digest(file.Content) {
			return file.Path + " is another one, which a new container would read"
		}
	}
	return ""
}
