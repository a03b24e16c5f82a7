package staticpod

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Annotations of a manifest with a patch: the patch, and the one that takes it back.
const (
	patchAnnotation   = "terraform-provider-kube/patch"
	unpatchAnnotation = "terraform-provider-kube/unpatch"
)

// longestPatch is the longest patch, in bytes. Annotations of an object have 256 KiB together.
const longestPatch = 32 << 10

// Patch is a strategic merge patch of a pod, as kubeadm applies those whose names end in "+strategic.yaml". It is JSON
// in a canonical form; "" is none.
type Patch string

// ParsePatch parses a patch in YAML or JSON. It may have every field of a pod in the form of the API, and no
// directives ($patch).
func ParsePatch(text string) (Patch, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	if len(text) > longestPatch {
		return "", fmt.Errorf("the patch has %d bytes, more than %d", len(text), longestPatch)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &core.Pod{}); err != nil {
		return "", fmt.Errorf("the patch is not a part of a pod: %s", problem.Line(err.Error()))
	}
	var fields object
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return "", fmt.Errorf("the patch is not a part of a pod: %s", problem.Line(err.Error()))
	}
	for _, name := range []string{"apiVersion", "kind"} { // those of every pod
		delete(fields, name)
	}
	return patchOf(fields), nil
}

// patchOf returns a patch with fields of a pod.
func patchOf(fields object) Patch {
	if len(fields) == 0 {
		return ""
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic("staticpod: encode a patch: " + err.Error()) // it was decoded
	}
	return Patch(text)
}

// YAML returns the patch as a person writes it.
func (p Patch) YAML() string {
	text, err := yaml.JSONToYAML([]byte(p))
	if p == "" || err != nil {
		return ""
	}
	return string(text)
}

// errPatched means that a patch changes what the provider depends on.
var errPatched = errors.New("the patch changes what the provider sets itself")

// errRefused means that a kubelet would refuse the pod.
var errRefused = errors.New("the kubelet would refuse the pod with the patch")

// ErrNoVolume means that a pod with a patch has a mount without its volume.
var ErrNoVolume = fmt.Errorf("%w: a mount without its volume", errRefused)

// ValidatePatch returns why text is not a patch that can be applied to p: it must leave alone what the pod runs, and
// what lets the provider know of its container.
func (p Pod) ValidatePatch(text string) (err error) {
	if p.Patch, err = ParsePatch(text); err != nil || p.Patch == "" {
		return err
	}
	_, err = p.patched(p.plain(noteVariable))
	return err
}

// patched applies the patch to a manifest without one. Annotations say how it is taken back.
func (p Pod) patched(m manifest) ([]byte, error) {
	before, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(p.Patch), core.Pod{})
	if err != nil {
		return nil, fmt.Errorf("apply the patch: %w", err)
	}
	if err := keeps(m, after); err != nil {
		return nil, err
	}
	back, err := strategicpatch.CreateTwoWayMergePatch(after, before, core.Pod{})
	if err != nil {
		return nil, fmt.Errorf("take the patch back: %w", err)
	}
	var fields object
	if err := json.Unmarshal(after, &fields); err != nil {
		return nil, err
	}
	metadata := child(fields, "metadata")
	annotations := child(metadata, "annotations")
	if annotations == nil {
		annotations = object{}
	}
	annotations[patchAnnotation], annotations[unpatchAnnotation] = string(p.Patch), string(back)
	metadata["annotations"] = annotations
	return yaml.Marshal(fields)
}

// keeps returns an error if a patched manifest lacks something of the one before, or has more than one container.
func keeps(before manifest, text []byte) error {
	var after manifest
	if err := json.Unmarshal(text, &after); err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	if len(after.Spec.Containers) != 1 {
		return fmt.Errorf("%w: the number of containers", errPatched)
	}
	was, is := before.Spec.Containers[0], after.Spec.Containers[0]
	for _, part := range []struct {
		name    string
		was, is any
	}{
		{"metadata.name", before.Metadata.Name, after.Metadata.Name},
		{"metadata.namespace", before.Metadata.Namespace, after.Metadata.Namespace},
		{"spec.hostNetwork", before.Spec.HostNetwork, after.Spec.HostNetwork},
		{"the name of the container", was.Name, is.Name},
		{"the image", was.Image, is.Image},
		{"the command", was.Command, is.Command},
		{"variable " + lost(was.Env, is.Env).Name, variable{}, lost(was.Env, is.Env)},
		{
			"volume " + lost(before.Spec.Volumes, after.Spec.Volumes).Name,
			volume{},
			lost(before.Spec.Volumes, after.Spec.Volumes),
		},
		{"mount " + lost(was.VolumeMounts, is.VolumeMounts).Name, volumeMount{}, lost(was.VolumeMounts, is.VolumeMounts)},
	} {
		if !reflect.DeepEqual(part.was, part.is) {
			return fmt.Errorf("%w: %s", errPatched, part.name)
		}
	}
	var whole core.Pod
	if err := json.Unmarshal(text, &whole); err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	if other := otherUser(whole); other != "" {
		return fmt.Errorf("%w: %s", errPatched, other)
	}
	if len(whole.Spec.Containers[0].Args) > 0 {
		return fmt.Errorf("%w: the arguments: set extra_args", errPatched)
	}
	for name, value := range before.Metadata.Annotations {
		if whole.Annotations[name] != value {
			return fmt.Errorf("%w: annotation %s", errPatched, name)
		}
	}
	for name, value := range before.Metadata.Labels {
		if whole.Labels[name] != value {
			return fmt.Errorf("%w: label %s", errPatched, name)
		}
	}
	return runs(whole.Spec)
}

// runs returns an error if a kubelet would refuse a patched pod: it would stop the one before, and start none.
func runs(s core.PodSpec) error {
	all := slices.Concat(s.InitContainers, s.Containers)
	for _, c := range all {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if _, limited := c.Resources.Limits[name]; limited && request.Cmp(limit) > 0 {
				return fmt.Errorf("%w: container %s requests %s of %s, and its limit is %s", errRefused, c.Name, request.String(),
					name, limit.String())
			}
		}
	}
	for _, c := range all {
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(s.Volumes, func(v core.Volume) bool { return v.Name == mount.Name }) {
				return fmt.Errorf("%w: %s, at %s of container %s", ErrNoVolume, mount.Name, mount.MountPath, c.Name)
			}
		}
	}
	return nil
}

// otherUser says that a pod or one of its containers does not run as root, to whom all files belong that it reads, or
// returns "".
func otherUser(p core.Pod) string {
	contexts := []core.SecurityContext{}
	if c := p.Spec.SecurityContext; c != nil {
		contexts = append(contexts, core.SecurityContext{
			RunAsUser: c.RunAsUser, RunAsGroup: c.RunAsGroup, RunAsNonRoot: c.RunAsNonRoot,
		})
	}
	for _, c := range p.Spec.Containers {
		if c.SecurityContext != nil {
			contexts = append(contexts, *c.SecurityContext)
		}
	}
	for _, c := range contexts {
		switch {
		case c.RunAsUser != nil && *c.RunAsUser != 0, c.RunAsNonRoot != nil && *c.RunAsNonRoot:
			return "a user other than root"
		case c.RunAsGroup != nil && *c.RunAsGroup != 0:
			return "a group other than root"
		}
	}
	return ""
}

// lost returns the first of the elements before that is not there afterwards, or the zero value.
func lost[T any](before, after []T) (none T) {
	for _, element := range before {
		if !slices.ContainsFunc(after, func(other T) bool { return reflect.DeepEqual(element, other) }) {
			return element
		}
	}
	return none
}

// unpatched returns the manifest without the patch that its annotations have, and the patch.
func unpatched(text string) (string, Patch, error) {
	var with struct {
		Metadata metadata `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &with); err != nil {
		return "", "", fmt.Errorf("%w: %s", errOtherForm, problem.Line(err.Error()))
	}
	patch, back := with.Metadata.Annotations[patchAnnotation], with.Metadata.Annotations[unpatchAnnotation]
	if patch == "" {
		return text, "", nil
	}
	canonical, err := ParsePatch(patch)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", errOtherForm, err)
	}
	var fields object
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return "", "", fmt.Errorf("%w: %s", errOtherForm, problem.Line(err.Error()))
	}
	annotations := child(child(fields, "metadata"), "annotations")
	delete(annotations, patchAnnotation)
	delete(annotations, unpatchAnnotation)
	if len(annotations) == 0 {
		delete(child(fields, "metadata"), "annotations")
	}
	after, err := json.Marshal(fields)
	if err != nil {
		return "", "", err
	}
	before, err := strategicpatch.StrategicMergePatch(after, []byte(back), core.Pod{})
	if err != nil {
		return "", "", fmt.Errorf("%w: its patch cannot be taken back: %s", errOtherForm, problem.Line(err.Error()))
	}
	return string(before), canonical, nil
}
