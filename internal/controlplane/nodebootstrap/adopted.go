package nodebootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// formerVersion is the version of kubeadm's API before kubeadmVersion.
const formerVersion = "kubeadm.k8s.io/v1beta3"

// configurations are the ConfigMaps whose text kubeadm and the provider share. Whatever the version of the text is, the
// fields that the provider sets have the same form in it.
var configurations = map[string]struct {
	key, kind string
	versions  []string
}{
	kubeadmConfig: {"ClusterConfiguration", "ClusterConfiguration", []string{formerVersion, kubeadmVersion}},
	kubeletConfig: {"kubelet", kubeletKind, []string{kubeletVersion}},
}

// Adopted returns how o is wanted where it exists as current. With Adopt, the configurations of kubeadm keep each field
// that the provider does not set: kubeadm certs and upgrade follow etcd.external, certificatesDir and others. A text
// that says all that is wanted is kept as it is, with its comments and with kubeadm's signature of it. The error says
// why a text cannot be kept: nothing may be applied then.
func (s Settings) Adopted(o Object, current map[string]any) (Object, error) {
	c, shared := configurations[o.Name]
	data, _ := current["data"].(map[string]any)
	text, _ := data[c.key].(string)
	if !s.Adopt || o.Resource != "configmaps" || !shared || strings.TrimSpace(text) == "" {
		return o, nil
	}
	have, err := parseConfiguration(text, c.kind, s.readBy(c.versions))
	if err != nil {
		return o, fmt.Errorf("%s: %s cannot be kept: %w", o.Label(), c.key, err)
	}
	set, err := s.fieldsOf(o.Name)
	if err != nil {
		return o, err
	}
	wanted := merged(have, set)
	if !reflect.DeepEqual(normal(have), normal(wanted)) {
		text = encoded(wanted)
	}
	kept := configMap(o.Namespace, o.Name, c.key, text)
	metadata, _ := current["metadata"].(map[string]any)
	kept.version, _ = metadata["resourceVersion"].(string)
	return kept, nil
}

// Overwritten describes what Adopt would keep of current, and o would not: fields that kubeadm has set and the provider
// does not.
func (s Settings) Overwritten(o Object, current map[string]any) []string {
	s.Adopt = true
	kept, err := s.Adopted(o, current)
	if err != nil {
		return []string{err.Error()}
	}
	return slices.DeleteFunc(o.Differences(kept.Manifest()), func(difference string) bool {
		return strings.HasSuffix(difference, missing)
	})
}

// ConfiguredVersion returns the version of Kubernetes that an existing kubeadm-config has; "" if there is none, or o is
// another object.
func ConfiguredVersion(o Object, current map[string]any) string {
	data, _ := current["data"].(map[string]any)
	text, _ := data[configurations[kubeadmConfig].key].(string)
	var fields map[string]any
	if o.Resource != "configmaps" || o.Name != kubeadmConfig || yaml.Unmarshal([]byte(text), &fields) != nil {
		return ""
	}
	has, _ := fields["kubernetesVersion"].(string)
	return has
}

// readBy returns those versions of a configuration that kubeadm of s.Version reads: since 1.37, v1beta3 is none of them
// (kubernetes/kubernetes#136016).
func (s Settings) readBy(versions []string) []string {
	if v, err := version.ParseSemantic(s.Version); err != nil || v.LessThan(version.MajorMinor(1, 37)) {
		return versions
	}
	return slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return v == formerVersion })
}

// fieldsOf returns the fields that the provider sets in a configuration of kubeadm. kubeadm's defaults are not among
// them: what kubeadm has written has its own.
func (s Settings) fieldsOf(name string) (map[string]any, error) {
	if name == kubeadmConfig {
		return s.clusterFields(), nil
	}
	fields := map[string]any{"clusterDomain": s.ClusterDomain, "rotateCertificates": true}
	if len(s.ClusterDNS) > 0 {
		fields["clusterDNS"] = listed(s.ClusterDNS)
	}
	own, err := parseKubelet(s.KubeletConfig)
	return merged(fields, own), err
}

// parseConfiguration reads a configuration of a known version. Numbers stay as they are written.
func parseConfiguration(text, kind string, versions []string) (map[string]any, error) {
	if severalDocuments(text) {
		return nil, errors.New("it has more than one document")
	}
	var fields map[string]any
	exact := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	if err := yaml.UnmarshalStrict([]byte(text), &fields, exact); err != nil {
		return nil, fmt.Errorf("it is not a mapping in YAML: %s", problem.Line(err.Error()))
	}
	version, _ := fields["apiVersion"].(string)
	if fields["kind"] != kind || !slices.Contains(versions, version) {
		return nil, fmt.Errorf("it is not a %s of %s: its kind is %s, and its apiVersion %s", kind,
			strings.Join(versions, " or "), quoted(fields["kind"]), quoted(fields["apiVersion"]))
	}
	return fields, nil
}

// severalDocuments reports whether something follows the first document of a YAML text.
func severalDocuments(text string) bool {
	begun := false
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "..."):
			if begun {
				return true
			}
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			begun = true
		}
	}
	return false
}

// quoted shows a value of a text that somebody else has written.
func quoted(value any) string { return problem.Quote(fmt.Sprint(value)) }
