package staticpod

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	longestManifest = 256 << 10
	mostNoted       = 100
)

var (
	digestForm   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	pathForm     = regexp.MustCompile(`^(/[A-Za-z0-9._@+-]+)+$`)
	errOtherForm = errors.New("it has not the form of a manifest of the provider")
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Parse reads a manifest back. It accepts exactly what Manifest writes, apart from the layout of the YAML and from the
// digest of the manifest in its note: a manifest that was edited is read as it is now, if a Pod can describe it.
func Parse(text string) (Pod, error) {
	if len(text) > longestManifest {
		return Pod{}, fmt.Errorf("its size is %d bytes", len(text))
	}
	plain, patch, err := unpatched(text)
	if err != nil {
		return Pod{}, err
	}
	var m manifest
	if err := yaml.UnmarshalStrict([]byte(plain), &m); err != nil {
		return Pod{}, fmt.Errorf("%w: %s", errOtherForm, problem.Line(err.Error()))
	}
	if len(m.Spec.Containers) != 1 || len(m.Spec.Containers[0].Command) == 0 {
		return Pod{}, errOtherForm
	}
	c := m.Spec.Containers[0]
	p := Pod{
		Name: m.Metadata.Name, Image: c.Image, Program: c.Command[0], Annotations: m.Metadata.Annotations,
		Liveness: c.LivenessProbe.parse(), Readiness: c.ReadinessProbe.parse(), Startup: c.StartupProbe.parse(),
		Patch: patch,
	}
	if c.Resources != nil {
		p.Requests, p.Limits = c.Resources.Requests, c.Resources.Limits
	}
	if c.SecurityContext != nil {
		p.User = c.SecurityContext.RunAsUser
	}
	if m.Spec.Grace != nil {
		p.Grace = *m.Spec.Grace
	}
	note, err := p.parseContainer(c, m.Spec.Volumes)
	if err != nil {
		return Pod{}, err
	}
	// Everything else is the same in every manifest, so it is there exactly if rendering p results in m.
	// The order of flags and variables is no difference.
	m.Spec.Containers[0].Command = p.command()
	m.Spec.Containers[0].Env = p.variables(note)
	canonical, err := yaml.Marshal(m)
	rendered, encodeErr := yaml.Marshal(p.plain(note))
	if err != nil || encodeErr != nil || !bytes.Equal(rendered, canonical) {
		return Pod{}, errOtherForm
	}
	return p, nil
}

// parseContainer reads flags, variables and mounts, and returns the note.
func (p *Pod) parseContainer(c container, volumes []volume) (note string, err error) {
	for _, word := range c.Command[1:] {
		flag, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !ok || !strings.HasPrefix(word, "--") || strings.Contains(value, "\n") {
			return "", fmt.Errorf("%s is not a flag with a value", problem.Quote(word))
		}
		if p.Flags == nil {
			p.Flags = map[string]string{}
		}
		if before, repeated := p.Flags[flag]; repeated {
			value = before + "\n" + value
		}
		p.Flags[flag] = value
	}
	for _, v := range c.Env {
		if v.Name == noteVariable {
			note = v.Value
			continue
		}
		if !variableForm.MatchString(v.Name) {
			return "", fmt.Errorf("%s is not the name of a variable", problem.Quote(v.Name))
		}
		if p.Environment == nil {
			p.Environment = map[string]string{}
		}
		p.Environment[v.Name] = v.Value
	}
	for path, digest := range ReadNote(note) {
		if path == Self {
			continue
		}
		if p.Inputs == nil {
			p.Inputs = map[string]string{}
		}
		p.Inputs[path] = digest
	}
	if len(c.VolumeMounts) != len(volumes) {
		return "", errOtherForm
	}
	for i, v := range volumes {
		at := c.VolumeMounts[i]
		if v.HostPath == nil || at.Name != v.Name {
			return "", errOtherForm
		}
		mount := Mount{
			Name: v.Name, Path: v.HostPath.Path, At: at.MountPath, ReadOnly: at.ReadOnly, Type: v.HostPath.Type,
		}
		if mount.At == mount.Path {
			mount.At = ""
		}
		p.Mounts = append(p.Mounts, mount)
	}
	return note, nil
}

func (p *probe) parse() *Probe {
	if p == nil || p.HTTPGet == nil {
		return nil
	}
	return &Probe{
		Host: p.HTTPGet.Host, Path: p.HTTPGet.Path, Port: p.HTTPGet.Port, Scheme: p.HTTPGet.Scheme, Delay: p.InitialDelay,
		Period: p.Period, Timeout: p.Timeout, Failures: p.Failures,
	}
}

// ReadNote parses a note: "DIGEST:PATH" separated by blanks. What has another form is dropped.
func ReadNote(text string) map[string]string {
	note := map[string]string{}
	for _, word := range strings.Fields(text) {
		digest, path, ok := strings.Cut(word, ":")
		if ok && digestForm.MatchString(digest) && (path == Self || pathForm.MatchString(path)) && len(note) < mostNoted {
			note[path] = digest
		}
	}
	return note
}
