package staticpod

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Inherited is a pod whose manifest the provider has not written: kubeadm has. Its container notes nothing.
type Inherited struct {
	Name        string
	Image       string
	Program     string
	Flags       map[string]string // as Pod.Flags
	Environment map[string]string
	Mounts      []Mount
	// Patch has what neither a Pod has nor kubeadm writes by itself.
	Patch Patch
	// Other is what a manifest of the provider would lose, because a patch may not have it, in words.
	Other []string
}

// Tag returns the tag of an image without its "v", "1.36.3" for "registry.k8s.io/kube-apiserver:v1.36.3"; "" if it has
// none.
func Tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return strings.TrimPrefix(tag, "v")
}

// Own reports whether a manifest is one of the provider, also if it was edited.
func Own(text string) bool { return strings.Contains(text, noteVariable) }

// object is a part of a manifest, as YAML has it.
type object = map[string]any

// kubeadmWrites are the fields of the pod and of its container that a manifest of kubeadm has, and those that it may
// have with any value: a pod of the provider has its own there. Source: cmd/kubeadm/app/util/staticpod/utils.go and
// cmd/kubeadm/app/phases/{controlplane,etcd} of 1.32 to 1.36. The other ones are compared.
var (
	kubeadmWrites = []string{
		"hostNetwork", "priority", "priorityClassName", "securityContext", "containers", "volumes",
	}
	kubeadmWritesContainer = []string{
		"name", "image", "imagePullPolicy", "command", "env", "resources", "volumeMounts", "ports",
		"livenessProbe", "readinessProbe", "startupProbe",
	}
	kubeadmRequests = map[string]object{
		"etcd":                    {"cpu": "100m", "memory": "100Mi"},
		"kube-apiserver":          {"cpu": "250m"},
		"kube-controller-manager": {"cpu": "200m"},
		"kube-scheduler":          {"cpu": "100m"},
	}
)

// kubeadmAnnotations begins the annotations of kubeadm.
const kubeadmAnnotations = "kubeadm.kubernetes.io/"

// ParseInherited reads a manifest that is not the provider's. Errors say what of its form is unknown.
func ParseInherited(text string) (Inherited, error) {
	var m object
	if len(text) > longestManifest {
		return Inherited{}, fmt.Errorf("its size is %d bytes", len(text))
	}
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		return Inherited{}, fmt.Errorf("it is not a manifest: %s", problem.Line(err.Error()))
	}
	metadata, pod := child(m, "metadata"), child(m, "spec")
	containers, _ := pod["containers"].([]any)
	if m["kind"] != "Pod" || len(containers) != 1 {
		return Inherited{}, errors.New("it is not a pod with one container")
	}
	c, _ := containers[0].(object)
	p := Inherited{Name: textOf(metadata["name"]), Image: textOf(c["image"])}
	rest := patchFields{metadata: object{}, pod: object{}, container: object{}}
	p.readMetadata(metadata, rest)
	p.readCommand(c)
	p.readVariables(c, rest)
	p.readMounts(pod, c, rest)
	p.readFields(m, pod, c, rest)
	p.readUser(text)
	if p.Program == "" || p.Image == "" || p.Name == "" {
		return Inherited{}, errors.New("its pod has no name, no image or no command")
	}
	patch, err := rest.patch(p.Name)
	if err != nil {
		p.other("%s", err.Error())
	}
	p.Patch = patch
	slices.Sort(p.Other)
	return p, nil
}

// patchFields are the fields of a patch: of the metadata, the pod and its container.
type patchFields struct{ metadata, pod, container object }

// add appends an element to a list of a part of the patch.
func add(part object, list string, element any) {
	elements, _ := part[list].([]any)
	part[list] = append(elements, element)
}

// set sets an entry of a map of a part of the patch.
func set(part object, entries, name string, value any) {
	if _, there := part[entries]; !there {
		part[entries] = object{}
	}
	child(part, entries)[name] = value
}

// patch returns the patch with these fields. The container has a name.
func (r patchFields) patch(container string) (Patch, error) {
	fields := object{}
	if len(r.metadata) > 0 {
		fields["metadata"] = r.metadata
	}
	if len(r.container) > 0 {
		r.container["name"] = container
		r.pod["containers"] = []any{r.container}
	}
	if len(r.pod) > 0 {
		fields["spec"] = r.pod
	}
	return ParsePatch(string(patchOf(fields)))
}

func child(m object, name string) object {
	c, _ := m[name].(object)
	return c
}

// textOf returns a value if it is a text.
func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// cleaned returns a path in its shortest form, if it is absolute: "/srv/log/" means "/srv/log" to the kubelet and the
// container runtime.
func cleaned(v any) string {
	text := textOf(v)
	if !path.IsAbs(text) {
		return text
	}
	return path.Clean(text)
}

func (p *Inherited) other(format string, args ...any) {
	p.Other = append(p.Other, problem.Line(fmt.Sprintf(format, args...)))
}

func (p *Inherited) readMetadata(metadata object, rest patchFields) {
	for name, value := range child(metadata, "labels") {
		switch {
		case name == "component" && value == p.Name || name == "tier" && value == "control-plane":
		case name == "component" || name == "tier":
			p.other("label %s", name)
		default:
			set(rest.metadata, "labels", name, value)
		}
	}
	for name, value := range child(metadata, "annotations") {
		if !strings.HasPrefix(name, kubeadmAnnotations) {
			set(rest.metadata, "annotations", name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		known := []string{"name", "namespace", "labels", "annotations", "creationTimestamp"}
		if !slices.Contains(known, name) || name == "namespace" && metadata[name] != namespace {
			p.other("metadata.%s", name)
		}
	}
}

func (p *Inherited) readCommand(c object) {
	words, _ := c["command"].([]any)
	for i, v := range words {
		word := textOf(v)
		if i == 0 {
			p.Program = word
			continue
		}
		flag, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !ok || !strings.HasPrefix(word, "--") || strings.Contains(value, "\n") {
			p.other("the argument %s, which is not a flag with a value", problem.Quote(word))
			continue
		}
		if p.Flags == nil {
			p.Flags = map[string]string{}
		}
		if before, repeated := p.Flags[flag]; repeated {
			value = before + "\n" + value
		}
		p.Flags[flag] = value
	}
}

func (p *Inherited) readVariables(c object, rest patchFields) {
	variables, _ := c["env"].([]any)
	for _, v := range variables {
		variable, _ := v.(object)
		name, value := textOf(variable["name"]), textOf(variable["value"])
		_, isText := variable["value"].(string)
		if !variableForm.MatchString(name) || len(variable) > 2 || len(variable) == 2 && !isText {
			add(rest.container, "env", v)
			continue
		}
		if p.Environment == nil {
			p.Environment = map[string]string{}
		}
		p.Environment[name] = value
	}
}

// mountsOf returns the names of the volumes that a container mounts.
func mountsOf(container any) map[string]bool {
	c, _ := container.(object)
	mounts, _ := c["volumeMounts"].([]any)
	names := map[string]bool{}
	for _, v := range mounts {
		mount, _ := v.(object)
		names[textOf(mount["name"])] = true
	}
	return names
}

// readMounts reads the paths of the machine that the container sees. Volumes of other kinds, and those of init
// containers alone, go into the patch. One that both mount has another name in a pod of the provider.
func (p *Inherited) readMounts(pod, c object, rest patchFields) {
	others := map[string]bool{}
	paths, types := map[string]string{}, map[string]string{}
	mounted, initial := mountsOf(c), map[string]bool{}
	containers, _ := pod["initContainers"].([]any)
	for _, container := range containers {
		maps.Copy(initial, mountsOf(container))
	}
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(object)
		name, source := textOf(volume["name"]), child(volume, "hostPath")
		if len(volume) != 2 || source == nil || initial[name] && !mounted[name] {
			others[name] = true
			add(rest.pod, "volumes", v)
			continue
		}
		if initial[name] {
			p.other("the volume %s, which an init container mounts too", problem.Quote(name))
		}
		paths[name], types[name] = cleaned(source["path"]), textOf(source["type"])
	}
	mounts, _ := c["volumeMounts"].([]any)
	for _, v := range mounts {
		mount, _ := v.(object)
		name, readOnly := textOf(mount["name"]), mount["readOnly"] == true
		if others[name] {
			add(rest.container, "volumeMounts", v)
			continue
		}
		at, ok := paths[name]
		if !ok {
			p.other("the mount of %s, which is not a volume", problem.Quote(name))
			continue
		}
		plain := true
		for _, field := range slices.Sorted(maps.Keys(mount)) {
			if !slices.Contains([]string{"name", "mountPath", "readOnly"}, field) {
				p.other("the volume %s with %s", problem.Quote(name), field)
				plain = false
			}
		}
		if !plain {
			continue
		}
		m := Mount{Name: name, Path: at, At: cleaned(mount["mountPath"]), ReadOnly: readOnly, Type: types[name]}
		if m.At == m.Path {
			m.At = ""
		}
		p.Mounts = append(p.Mounts, m)
	}
}

// readFields looks for fields that kubeadm does not write, and for resources that are not those of kubeadm.
func (p *Inherited) readFields(m, pod, c object, rest patchFields) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status"}, name) {
			p.other("%s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pod)) {
		if !slices.Contains(kubeadmWrites, name) {
			rest.pod[name] = pod[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		switch {
		case name == "args":
			p.other("args of the container")
		case !slices.Contains(kubeadmWritesContainer, name):
			rest.container[name] = c[name]
		}
	}
	seccomp := object{"seccompProfile": object{"type": "RuntimeDefault"}}
	if context := child(pod, "securityContext"); len(context) > 0 && !reflect.DeepEqual(context, seccomp) {
		rest.pod["securityContext"] = context
	}
	resources := child(c, "resources")
	requests := child(resources, "requests")
	if len(requests) > 0 && !reflect.DeepEqual(requests, kubeadmRequests[p.Name]) {
		set(rest.container, "resources", "requests", requests)
	}
	if limits := child(resources, "limits"); len(limits) > 0 {
		set(rest.container, "resources", "limits", limits)
	}
	if pod["hostNetwork"] != true {
		p.other("spec.hostNetwork, which is not true")
	}
}

// readUser looks for another user than root. No kubelet runs what is not a pod.
func (p *Inherited) readUser(text string) {
	var whole core.Pod
	if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
		return
	}
	if other := otherUser(whole); other != "" {
		p.other("%s", other)
	}
}

// Foreign returns the mounts of p that are below none of the paths.
func (p Inherited) Foreign(known ...string) []Mount {
	var rest []Mount
	for _, m := range p.Mounts {
		below := func(dir string) bool { return m.Path == dir || strings.HasPrefix(m.Path, dir+"/") }
		if m.At != "" || !slices.ContainsFunc(known, below) {
			rest = append(rest, m)
		}
	}
	return rest
}

// OnMachine returns the path on the machine of what the container sees at a path; "" if no file or directory of the
// machine is mounted there.
func (p Inherited) OnMachine(at string) string {
	file, longest := "", 0
	for _, m := range p.Mounts {
		place := strings.TrimSuffix(path.Clean(m.at()), "/") + "/"
		if rest, below := strings.CutPrefix(path.Clean(at)+"/", place); below && len(place) > longest {
			file, longest = path.Join(m.Path, rest), len(place)
		}
	}
	return file
}

// PatchWith returns the patch of p with mounts in addition.
func (p Inherited) PatchWith(mounts []Mount) Patch {
	if len(mounts) == 0 {
		return p.Patch
	}
	fields := object{}
	if p.Patch != "" {
		if err := json.Unmarshal([]byte(p.Patch), &fields); err != nil {
			panic("staticpod: decode a patch: " + err.Error()) // ParsePatch has encoded it
		}
	}
	pod := child(fields, "spec")
	if pod == nil {
		pod = object{}
		fields["spec"] = pod
	}
	containers, _ := pod["containers"].([]any)
	if len(containers) == 0 {
		containers = []any{object{"name": p.Name}}
		pod["containers"] = containers
	}
	container, _ := containers[0].(object)
	volumes := map[string]bool{} // one that is mounted twice is defined once: Kubernetes refuses another of its name
	for _, m := range mounts {
		source := object{"path": m.Path}
		if m.Type != "" {
			source["type"] = m.Type
		}
		at := object{"name": m.Name, "mountPath": m.at()}
		if m.ReadOnly {
			at["readOnly"] = true
		}
		if !volumes[m.Name] {
			add(pod, "volumes", object{"name": m.Name, "hostPath": source})
		}
		volumes[m.Name] = true
		add(container, "volumeMounts", at)
	}
	return patchOf(fields)
}

// Trusted are the directories of CAs that kubeadm mounts, if the machine has them, and that a pod of the provider has
// or does without. /etc/pki/ca-trust and /etc/pki/tls/certs are none of them: on machines of the RHEL family,
// /etc/ssl/certs has links to files there, and without them a container trusts no CA of the machine.
var Trusted = []string{
	"/etc/ssl/certs", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

// FlagsDiffer describes how the flags of an inherited pod differ from the wanted ones in what its container must be
// restarted for. A flag that have does not set may have the standard value: what the provider adds by itself comes with
// the next restart. same says which values mean the same; nil: equal ones.
func FlagsDiffer(have, want, standard map[string]string, same func(flag, have, want string) bool) []string {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, want)
	var words []string
	for _, flag := range slices.Sorted(maps.Keys(all)) {
		has, there := have[flag]
		wants, wanted := want[flag]
		usual, ok := standard[flag]
		switch {
		case there && wanted && (has == wants || same != nil && same(flag, has, wants)):
		case !there && wanted && ok && usual == wants:
		case !there:
			words = append(words, fmt.Sprintf("flag --%s is missing, wanted %q", flag, wants))
		case !wanted:
			words = append(words, fmt.Sprintf("flag --%s is %q, wanted not to be set", flag, has))
		default:
			words = append(words, fmt.Sprintf("flag --%s is %q, wanted %q", flag, has, wants))
		}
	}
	return words
}
