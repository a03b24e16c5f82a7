package pod

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Validate returns why the components of a valid replica cannot run as static pods. It looks at settings alone, so a
// plan can ask with those that it knows.
func Validate(s component.Replica) error {
	type check struct {
		attribute string
		err       error
	}
	checks := []check{
		{"supplementary_groups", refuse(len(s.SupplementaryGroups) > 0, "the containers of static pods run as root, which "+
			"opens every socket: drop supplementary_groups")},
		{"konnectivity", refuse(s.Konnectivity != nil, "konnectivity does not work with static pods yet: the provider "+
			"runs its proxy server as a unit, beside units")},
	}
	if s.ImageRepository != "" {
		checks = append(checks, check{"image_repository", component.ValidateImageRepository(s.ImageRepository)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
		checks = append(checks, check{"resources", ValidateLimits(s.Limits[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		checks = append(checks, check{"environment", systemd.ValidateEnvironment(s.Environment[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.ExtraArgs)) {
		checks = append(checks, check{"extra_args", validatePaths(name, s.ExtraArgs[name], s.ExtraVolumes[name])})
	}
	for _, c := range patchedComponents(s) {
		err := Of(c).ValidatePatch(c.Patch)
		if s.Bundle == nil && errors.Is(err, staticpod.ErrNoVolume) {
			err = nil // the volumes of files that are not known yet
		}
		checks = append(checks, check{"patches", err})
	}
	for _, name := range slices.Sorted(maps.Keys(s.ExtraVolumes)) {
		checks = append(checks, check{"extra_volumes", component.ValidateVolumes(s.ExtraVolumes[name])})
	}
	for _, check := range checks {
		if check.err != nil {
			return &problem.Problem{
				Summary: "Invalid control-plane replica", Attribute: check.attribute, Host: s.Machine(),
				Cause: check.err.Error(), Unchanged: problem.Nothing, Err: check.err,
			}
		}
	}
	return nil
}

func refuse(is bool, why string) error {
	if !is {
		return nil
	}
	return errors.New(why)
}

// patchedComponents returns the components that have a patch: without flags and files as long as they are not known.
func patchedComponents(s component.Replica) []component.Component {
	var all []component.Component
	if s.Bundle == nil {
		for _, name := range slices.Sorted(maps.Keys(s.Patches)) {
			all = append(all, component.Component{
				Name: name, Image: name, Patch: s.Patches[name], Limits: s.Limits[name], Volumes: s.ExtraVolumes[name],
			})
		}
		return all
	}
	if len(s.Patches) == 0 {
		return nil
	}
	return slices.DeleteFunc(component.Of(s), func(c component.Component) bool { return c.Patch == "" })
}

// ValidateLimits returns why a pod cannot have these limits: Kubernetes has no words for some that systemd has.
func ValidateLimits(l component.Limits) error {
	switch {
	case l.MemoryHigh != "":
		return errors.New("memory_high cannot be set for a static pod: set memory_max")
	case l.CPUWeight != 0 || l.IOWeight != 0:
		return errors.New("cpu_weight and io_weight cannot be set for a static pod: the kubelet derives the weight from " +
			"its request, which is kubeadm's")
	case strings.HasSuffix(l.MemoryMin, "%"):
		return fmt.Errorf("memory_min = %q cannot be set for a static pod: set bytes, such as 1G", l.MemoryMin)
	}
	return systemd.Limits(l).Validate()
}

// namesFile are the endings of the flags whose values are paths.
var namesFile = []string{"-file", "-files", "-config", "-config-file", "kubeconfig", "-dir", "-cert", "-key", "-path"}

// validatePaths returns an error if an extra argument names a file that the container does not see.
func validatePaths(name string, extra map[string]string, volumes map[string]component.Volume) error {
	visible := mounts(component.Component{Name: name, Flags: extra, Volumes: volumes})
	for _, flag := range slices.Sorted(maps.Keys(extra)) {
		named := func(end string) bool { return strings.HasSuffix(flag, end) }
		if flag != "config" && !slices.ContainsFunc(namesFile, named) {
			continue
		}
		for _, file := range pathsIn(extra[flag]) {
			switch at := mountOf(file, visible); {
			case flag == component.AuditLogFlag && (at == nil || at.ReadOnly):
				return fmt.Errorf("flag %q of %s names %s, where its container cannot write: use %s, or mount the directory by "+
					"extra_volumes", flag, name, file, component.AuditLogDir)
			case at == nil:
				return fmt.Errorf("flag %q of %s names %s, which its container does not see: give the file in files, which are "+
					"in %s, or mount it by extra_volumes", flag, name, file, component.FilesDir)
			}
		}
	}
	return nil
}

// mountOf returns the mount by which a container sees a file: of several, the one with the longest path. It returns nil
// if there is none.
func mountOf(file string, mounts []staticpod.Mount) *staticpod.Mount {
	var nearest *staticpod.Mount
	for _, m := range mounts {
		at := cmp.Or(m.At, m.Path)
		if (file == at || within(file, at)) && (nearest == nil || len(at) > len(cmp.Or(nearest.At, nearest.Path))) {
			nearest = &m
		}
	}
	return nearest
}
