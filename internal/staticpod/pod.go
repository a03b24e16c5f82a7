// Package staticpod is a component of a control plane as a static pod: the manifest from which the kubelet of a
// machine runs it, how two of them differ, the scripts that place one and take it away, and what a machine reports
// of its containers. It knows no component.
package staticpod

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Directory is where the kubelet of a machine has to look for manifests: kubeadm's path. Every file in it whose name
// does not begin with a dot is a pod.
const Directory = "/etc/kubernetes/manifests"

// Path returns the file of the pod in Directory.
func Path(name string) string { return Directory + "/" + name + ".yaml" }

// Pod is a component as a pod with one container. Its name is that of the container and of the component.
type Pod struct {
	Name        string
	Image       string
	Program     string            // in the image
	Flags       map[string]string // without dashes → value; the values of a repeated flag are separated by newlines
	Environment map[string]string
	// Inputs are digests of files that the program reads at its start only, by path. A change of them changes the
	// manifest, and thereby restarts the pod.
	Inputs      map[string]string
	Mounts      []Mount
	Requests    map[string]string // resource → quantity
	Limits      map[string]string
	Liveness    *Probe
	Readiness   *Probe
	Startup     *Probe
	User        *int64 // nil: that of the image, which is root in those of Kubernetes
	Grace       int    // seconds from SIGTERM to SIGKILL; 0: the kubelet's default
	Annotations map[string]string
	Patch       Patch // is applied to the manifest; ValidatePatch says whether it can be
}

// Mount is a file or directory of the machine in the container.
type Mount struct {
	Name     string
	Path     string // on the machine
	At       string // in the container; "": the same path
	ReadOnly bool
	// Type is what the kubelet requires Path to be before it starts the pod: Directory, File, DirectoryOrCreate, …
	Type string
}

// Probe is an HTTP request of the kubelet.
type Probe struct {
	Host     string
	Path     string
	Port     int
	Scheme   string // HTTP or HTTPS
	Delay    int    // seconds before the first
	Period   int    // seconds
	Timeout  int    // seconds
	Failures int    // until it counts
}

// noteVariable is the variable of the container that says what it was started with: the digest of the rest of the
// manifest and those of the inputs.
const noteVariable = "KUBE_STARTED_WITH"

// Self is the name of the digest of the manifest in a note.
const Self = "manifest"

// Note returns the digests that a container of p notes, by path, and that of p itself by the name Self.
func (p Pod) Note() map[string]string {
	note := maps.Clone(p.Inputs)
	if note == nil {
		note = map[string]string{}
	}
	p.Inputs = nil
	sum := sha256.Sum256(p.render(""))
	note[Self] = hex.EncodeToString(sum[:])
	return note
}

// Manifest returns the manifest.
func (p Pod) Manifest() []byte {
	var words []string
	note := p.Note()
	for _, path := range slices.Sorted(maps.Keys(note)) {
		words = append(words, note[path]+":"+path)
	}
	return p.render(strings.Join(words, " "))
}

// File returns the manifest as a file at path, which only root can read.
func (p Pod) File(path string) host.File {
	return host.File{Path: path, Content: p.Manifest(), Mode: 0o600}
}

// render renders the manifest in kubeadm's form, with a note if it is not empty.
func (p Pod) render(note string) []byte {
	m := p.plain(note)
	if p.Patch != "" {
		if text, err := p.patched(m); err == nil {
			return text
		}
		// ValidatePatch refuses it before anything is rendered for a machine.
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		panic("staticpod: encode a manifest: " + err.Error())
	}
	return text
}

// plain returns the manifest without the patch.
func (p Pod) plain(note string) manifest {
	seccomp := securityContext{SeccompProfile: &seccompProfile{Type: "RuntimeDefault"}}
	m := manifest{
		APIVersion: "v1", Kind: "Pod",
		Metadata: metadata{
			Name: p.Name, Namespace: namespace, Annotations: p.Annotations,
			Labels: map[string]string{"component": p.Name, "tier": "control-plane"},
		},
		Spec: spec{
			HostNetwork: true, Priority: criticalPriority, PriorityClassName: criticalClass, SecurityContext: seccomp,
		},
	}
	c := container{
		Name: p.Name, Image: p.Image, ImagePullPolicy: pullPolicy, Command: p.command(), Env: p.variables(note),
		LivenessProbe: p.Liveness.render(), ReadinessProbe: p.Readiness.render(), StartupProbe: p.Startup.render(),
	}
	if len(p.Requests)+len(p.Limits) > 0 {
		c.Resources = &resources{Requests: p.Requests, Limits: p.Limits}
	}
	if p.User != nil {
		c.SecurityContext = &securityContext{RunAsUser: p.User, RunAsGroup: p.User}
	}
	if p.Grace > 0 {
		m.Spec.Grace = &p.Grace
	}
	for _, mount := range p.Mounts {
		c.VolumeMounts = append(c.VolumeMounts,
			volumeMount{Name: mount.Name, MountPath: mount.at(), ReadOnly: mount.ReadOnly})
		m.Spec.Volumes = append(m.Spec.Volumes, volume{
			Name: mount.Name, HostPath: &hostPath{Path: mount.Path, Type: mount.Type},
		})
	}
	m.Spec.Containers = []container{c}
	return m
}

// command returns the program and its flags.
func (p Pod) command() []string {
	words := []string{p.Program}
	for _, flag := range slices.Sorted(maps.Keys(p.Flags)) {
		for _, value := range strings.Split(p.Flags[flag], "\n") {
			words = append(words, "--"+flag+"="+value)
		}
	}
	return words
}

// variables returns the variables of the container, the note last.
func (p Pod) variables(note string) []variable {
	var all []variable
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		all = append(all, variable{Name: name, Value: p.Environment[name]})
	}
	if note != "" {
		all = append(all, variable{Name: noteVariable, Value: note})
	}
	return all
}

func (p *Probe) render() *probe {
	if p == nil {
		return nil
	}
	return &probe{
		HTTPGet: &httpGet{Host: p.Host, Path: p.Path, Port: p.Port, Scheme: p.Scheme}, InitialDelay: p.Delay,
		Period: p.Period, Timeout: p.Timeout, Failures: p.Failures,
	}
}
