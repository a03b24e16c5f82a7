package component

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
)

// Volume is a file or directory of the machine in the container of a component, in addition to those that its
// description needs.
type Volume struct {
	HostPath  string // on the machine
	MountPath string // in the container
	ReadOnly  bool
	PathType  string // what the kubelet requires HostPath to be, or creates; "": anything
}

var (
	volumeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	volumePath = regexp.MustCompile(`^(/[A-Za-z0-9._@+-]+)+$`)
	// pathTypes are those of Kubernetes.
	pathTypes = []string{
		"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
	}
)

// ValidateVolumes returns why a component cannot have the volumes, by name.
func ValidateVolumes(volumes map[string]Volume) error {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		switch other, twice := seen[v.MountPath]; {
		case !volumeName.MatchString(name):
			return fmt.Errorf("volume %q: the name is not a DNS label", name)
		case !volumePath.MatchString(v.HostPath) || path.Clean(v.HostPath) != v.HostPath:
			return fmt.Errorf("volume %q: host_path %q is not a plain absolute path", name, v.HostPath)
		case !volumePath.MatchString(v.MountPath) || path.Clean(v.MountPath) != v.MountPath:
			return fmt.Errorf("volume %q: mount_path %q is not a plain absolute path", name, v.MountPath)
		case !slices.Contains(pathTypes, v.PathType):
			return fmt.Errorf("volume %q: path_type %q is not one of Kubernetes", name, v.PathType)
		case twice:
			return fmt.Errorf("volumes %q and %q have the same mount_path", other, name)
		}
		seen[v.MountPath] = name
	}
	return nil
}
