// Package pod runs the components of a replica as static pods, in kubeadm's form. What a machine wants is a
// definition outside of the kubelet's directory: a manifest without a note of its inputs. A start writes the note, and
// gives the kubelet the result (package staticpod).
package pod

import (
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// Directories on the machine.
const (
	Dir       = component.KubernetesDir + "/replica.pods" // of the definitions
	Inherited = Dir + inherited                           // of manifests that somebody else has written

	inherited = "/inherited"
)

// Path returns the path of a component's definition.
func Path(name string) string { return path.Join(Dir, name+".yaml") }

// Name returns what messages call the pod of a component.
func Name(name string) string { return "static pod " + name }

// Annotations of the pods, and of nothing else.
const (
	versionAnnotation = "terraform-provider-kube/version" // of the program
	inputsAnnotation  = "terraform-provider-kube/inputs"  // files that it reads at its start only
	volumesAnnotation = "terraform-provider-kube/volumes" // names of the volumes that the user has added
)

// endpointAnnotation is the one by which kubeadm finds API servers.
const endpointAnnotation = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"

// File renders the definition of a component. It depends on the description alone. As with kubeadm's manifests, only
// root can read it: variables may be secret.
func File(c component.Component) host.File {
	content := []byte(c.Definition)
	if c.Definition == "" {
		content = Of(c).Manifest()
	}
	return host.File{Path: Path(c.Name), Content: content, Mode: component.SecretMode, Owner: "root", Group: "root"}
}

// processors are kubeadm's requests (cmd/kubeadm/app/phases/controlplane/manifests.go).
var processors = map[string]string{
	release.APIServer: "250m", release.ControllerManager: "200m", release.Scheduler: "100m",
}

// Of returns the pod of a component. It runs as root, as with kubeadm: the files of all components belong to root.
func Of(c component.Component) staticpod.Pod {
	root := int64(0)
	p := staticpod.Pod{
		Name: c.Name, Image: c.Image, Program: c.Name, Flags: maps.Clone(c.Flags), Environment: maps.Clone(c.Environment),
		Mounts: mounts(c), User: &root, Grace: int(c.StopTimeout / time.Second),
		Annotations: map[string]string{
			versionAnnotation: version(c.Program), inputsAnnotation: strings.Join(slices.Sorted(slices.Values(c.Inputs)), ","),
		},
		Requests: map[string]string{"cpu": processors[c.Name]},
	}
	if c.Name == release.APIServer {
		p.Annotations[endpointAnnotation] = net.JoinHostPort(c.Flags["advertise-address"], c.Flags["secure-port"])
	}
	if len(c.Volumes) > 0 {
		p.Annotations[volumesAnnotation] = strings.Join(slices.Sorted(maps.Keys(c.Volumes)), ",")
	}
	setLimits(&p, c.Limits)
	setProbes(&p, c)
	p.Patch, _ = staticpod.ParsePatch(c.Patch) // Validate refuses what is none
	return p
}

// version returns the version in the path of a program that the provider installs.
func version(program string) string { return path.Base(path.Dir(program)) }

// setProbes sets kubeadm's probes. That of the API server's life leaves out what all API servers share, as the
// liveness probe of units does: otherwise all of them are restarted when etcd has no quorum.
func setProbes(p *staticpod.Pod, c component.Component) {
	paths := map[string][3]string{ // of liveness, readiness and startup
		release.APIServer:         {"/livez" + component.ExceptShared, "/readyz", "/livez" + component.ExceptShared},
		release.ControllerManager: {"/healthz", "", "/healthz"},
		release.Scheduler:         {"/livez", "/readyz", "/livez"},
	}[c.Name]
	probe := func(at string, delay, period, failures int) *staticpod.Probe {
		if at == "" {
			return nil
		}
		return &staticpod.Probe{
			Host: c.Probe.Address, Port: c.Probe.Port, Path: at, Scheme: "HTTPS", Delay: delay, Period: period, Timeout: 15,
			Failures: failures,
		}
	}
	p.Liveness = probe(paths[0], 10, 10, 8)
	p.Readiness = probe(paths[1], 0, 1, 3)
	p.Startup = probe(paths[2], 10, 10, 24)
}

// trusted has the CAs of the machine, for what is outside of the cluster.
const trusted = "/etc/ssl/certs"

// mounts returns what the component reads and writes on the machine. Directories are mounted where a running component
// reads a file again, because a mounted file stays the one that it was when the container started.
func mounts(c component.Component) []staticpod.Mount {
	var all []staticpod.Mount
	add := func(m staticpod.Mount) {
		if !slices.ContainsFunc(all, func(other staticpod.Mount) bool { return other.Path == m.Path }) {
			all = append(all, m)
		}
	}
	for _, file := range paths(c) {
		switch dir := path.Dir(file); {
		case dir == component.AuditLogDir:
			add(staticpod.Mount{Name: "audit", Path: dir, Type: "DirectoryOrCreate"})
		case within(file, component.PKIDir):
			add(staticpod.Mount{Name: "k8s-certs", Path: component.PKIDir, ReadOnly: true, Type: "Directory"})
		case within(file, component.FilesDir):
			add(staticpod.Mount{Name: "files", Path: component.FilesDir, ReadOnly: true, Type: "Directory"})
		case dir == component.KubernetesDir:
			add(staticpod.Mount{Name: volume(path.Base(file)), Path: file, ReadOnly: true, Type: "File"})
		}
	}
	for i, socket := range c.Sockets {
		add(staticpod.Mount{Name: fmt.Sprintf("socket-%d", i), Path: path.Dir(socket), Type: "Directory"})
	}
	if c.Name != release.Scheduler {
		add(staticpod.Mount{Name: "ca-certs", Path: trusted, ReadOnly: true, Type: "DirectoryOrCreate"})
	}
	return addVolumes(all, c.Volumes)
}

// volume returns the name of a volume for a file.
func volume(file string) string { return strings.ReplaceAll(file, ".", "-") }

func within(file, dir string) bool { return strings.HasPrefix(file, dir+"/") }

// paths returns the files of a component, sorted: those that it reads at its start, and those that its flags name.
func paths(c component.Component) []string {
	files := slices.Concat(c.Inputs, c.Certificates)
	for _, flag := range slices.Sorted(maps.Keys(c.Flags)) {
		files = append(files, pathsIn(c.Flags[flag])...)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// pathsIn returns the absolute paths in the value of a flag.
func pathsIn(value string) []string {
	var files []string
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '\n' || r == ':' }) {
		if path.IsAbs(word) {
			files = append(files, path.Clean(word))
		}
	}
	return files
}
