package pod

import (
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Parsed is what a definition says.
type Parsed struct {
	Program         string // as Component.Program
	Flags           map[string]string
	Limits          component.Limits
	Environment     map[string]string
	ImageRepository string
	Volumes         map[string]component.Volume // nil: none
	Patch           string                      // in YAML
}

// Parse parses a definition.
func Parse(definition string) (Parsed, error) {
	p, err := staticpod.Parse(definition)
	if err != nil {
		return Parsed{}, err
	}
	version := p.Annotations[versionAnnotation]
	if !release.IsVersion(version) {
		return Parsed{}, fmt.Errorf("it has no annotation %s", versionAnnotation)
	}
	out := Parsed{Program: component.Artifact(version, p.Name).Path(), Flags: p.Flags, Patch: p.Patch.YAML()}
	out.Limits, out.Environment = limitsOf(p)
	if ValidateLimits(out.Limits) != nil {
		out.Limits = component.Limits{}
	}
	if systemd.ValidateEnvironment(out.Environment) != nil {
		out.Environment = nil
	}
	out.Volumes = volumesOf(p.Mounts, p.Annotations[volumesAnnotation])
	if component.ValidateVolumes(out.Volumes) != nil {
		out.Volumes = nil
	}
	repository, ok := strings.CutSuffix(p.Image, "/"+p.Name+":v"+version)
	if ok && component.ValidateImageRepository(repository) == nil {
		out.ImageRepository = repository
	}
	return out, nil
}

// Differences describes how a definition differs from that of c, beyond the flags.
func Differences(definition string, c component.Component) []string {
	have, err := staticpod.Parse(definition)
	if err != nil {
		return []string{err.Error()}
	}
	return staticpod.Differences(have, Of(c))
}
