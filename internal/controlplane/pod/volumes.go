package pod

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// ownSuffix distinguishes a mount of the provider from a volume of the user that has its name.
const ownSuffix = "-own"

// addVolumes adds the volumes of the user to the mounts of a component. What is mounted at the same path already gives
// way: the user's may be writable.
func addVolumes(own []staticpod.Mount, volumes map[string]component.Volume) []staticpod.Mount {
	var all []staticpod.Mount
	at := map[string]bool{}
	for _, v := range volumes {
		at[v.MountPath] = true
	}
	for _, m := range own {
		m.Name = ownName(m, own, volumes)
		if !at[m.Path] {
			all = append(all, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		m := staticpod.Mount{Name: name, Path: v.HostPath, At: v.MountPath, ReadOnly: v.ReadOnly, Type: v.PathType}
		if m.At == m.Path {
			m.At = ""
		}
		all = append(all, m)
	}
	return all
}

// ownName returns the name of a mount of the provider. One that is no DNS label, or that another volume has, is made of
// the digest of the path instead.
func ownName(m staticpod.Mount, own []staticpod.Mount, volumes map[string]component.Volume) string {
	name := m.Name
	if _, taken := volumes[name]; taken {
		name += ownSuffix
	}
	_, taken := volumes[name]
	for _, other := range own { // of two files, the first one keeps the name
		first := m.Type == "File" && (other.Type != "File" || other.Path < m.Path)
		taken = taken || other.Name == m.Name && first
	}
	if taken || len(validation.IsDNS1123Label(name)) > 0 {
		digest := sha256.Sum256([]byte(m.Path))
		return fmt.Sprintf("file-%x", digest[:5])
	}
	return name
}

// volumesOf returns the mounts with the given names as volumes; nil if there are none.
func volumesOf(mounts []staticpod.Mount, names string) map[string]component.Volume {
	listed := strings.Split(names, ",")
	return volumesIn(slices.DeleteFunc(slices.Clone(mounts), func(m staticpod.Mount) bool {
		return !slices.Contains(listed, m.Name)
	}))
}

// volumesIn returns mounts as volumes; nil if there are none.
func volumesIn(mounts []staticpod.Mount) map[string]component.Volume {
	var all map[string]component.Volume
	for _, m := range mounts {
		if all == nil {
			all = map[string]component.Volume{}
		}
		v := component.Volume{HostPath: m.Path, MountPath: m.At, ReadOnly: m.ReadOnly, PathType: m.Type}
		if v.MountPath == "" {
			v.MountPath = m.Path
		}
		all[m.Name] = v
	}
	return all
}
