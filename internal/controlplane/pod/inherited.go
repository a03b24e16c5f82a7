package pod

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// readInherited parses a manifest in base64 that the provider has not written. One of another form is nil.
func readInherited(encoded, name string) (have *staticpod.Inherited, manifest string) {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, ""
	}
	p, err := ParseInherited(string(text))
	if err != nil || p.Name != name {
		return nil, ""
	}
	return &p, string(text)
}

// signingFlags name the CA with which a controller-manager signs. kubeadm writes them without a value if the key of the
// CA is elsewhere, as if they were not set.
var signingFlags = []string{"cluster-signing-cert-file", "cluster-signing-key-file"}

// isUnset reports whether a flag with a value means the same as without the flag, which the provider does not set.
func isUnset(flag, value string) bool {
	return value == "" && slices.Contains(signingFlags, flag) ||
		flag == component.EndpointReconcilerFlag && value == component.EndpointReconcilerLease
}

// ParseInherited is staticpod.ParseInherited for a component, whose flags get one form.
func ParseInherited(text string) (staticpod.Inherited, error) {
	p, err := staticpod.ParseInherited(text)
	if err != nil {
		return p, err
	}
	for _, flag := range slices.Sorted(maps.Keys(p.Flags)) {
		if isUnset(flag, p.Flags[flag]) {
			delete(p.Flags, flag)
			continue
		}
		value, ok := component.Together(p.Name, flag, p.Flags[flag])
		if p.Flags[flag] = value; !ok {
			p.Other = append(p.Other, "the flag --"+flag+", which is given more than once")
		}
	}
	return p, nil
}

// plainPath is a path that names one file, whatever prints it.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/-]{1,200}$`)

// EncryptionFile returns the file of the machine that an API server reads its configuration of encryption from; "" if
// it reads none.
func EncryptionFile(apiServer staticpod.Inherited) (string, error) {
	at := apiServer.Flags[component.EncryptionFlag]
	if at == "" {
		return "", nil
	}
	if file := apiServer.OnMachine(at); path.IsAbs(at) && plainPath.MatchString(file) {
		return file, nil
	}
	return "", fmt.Errorf("the API server encrypts at rest by %s, and its manifest mounts no file of the machine there",
		problem.Quote(at))
}

// VersionOf returns the version in the tag of the image of a component; "" if there is none.
func VersionOf(p staticpod.Inherited) string {
	if version := staticpod.Tag(p.Image); release.IsVersion(version) {
		return version
	}
	return ""
}

// RepositoryOf returns the repository of a component's image; "" if the image is not named as those of Kubernetes.
func RepositoryOf(p staticpod.Inherited) string {
	repository, ok := strings.CutSuffix(p.Image, "/"+p.Name+":v"+VersionOf(p))
	if !ok || component.ValidateImageRepository(repository) != nil {
		return ""
	}
	return repository
}

// Lost describes what of a manifest of kubeadm a definition of the provider cannot have.
func Lost(p staticpod.Inherited) []string {
	words := slices.Clone(p.Other)
	mounts := map[string]int{}
	for _, m := range foreign(p) {
		if mounts[m.Name]++; mounts[m.Name] == 2 {
			words = append(words, "the volume "+problem.Quote(m.Name)+", which is mounted more than once")
		}
	}
	if err := component.ValidateVolumes(VolumesOf(p)); err != nil {
		words = append(words, err.Error())
	}
	return words
}

// VolumesOf returns the volumes that kubeadm was told to add; nil if there are none.
func VolumesOf(p staticpod.Inherited) map[string]component.Volume { return volumesIn(foreign(p)) }

// foreign returns the mounts that neither kubeadm nor the provider gives a component.
func foreign(p staticpod.Inherited) []staticpod.Mount {
	known := append(slices.Clone(staticpod.Trusted), component.PKIDir, component.ControllerManagerConf,
		component.SchedulerConf)
	if p.Name == release.ControllerManager {
		known = append(known, flexVolumes)
	}
	return p.Foreign(known...)
}

// flexVolumes is what kubeadm mounts for plugins of the long deprecated kind FlexVolume.
const flexVolumes = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"

// InheritedDifferences describes why a component of kubeadm must be restarted to run as c. What the provider's
// definition has by itself, such as a flag that it always sets, comes with the next restart.
func InheritedDifferences(have staticpod.Inherited, c component.Component) []string {
	words := staticpod.FlagsDiffer(have.Flags, c.Flags, c.Standard, func(flag, has, wants string) bool {
		return sameFlag(c, flag, has, wants)
	})
	if have.Image != c.Image {
		words = append(words, fmt.Sprintf("the image is %q, wanted %q", have.Image, c.Image))
	}
	if !maps.Equal(have.Environment, c.Environment) {
		words = append(words, "the variables of its environment are other ones")
	}
	if !maps.Equal(VolumesOf(have), c.Volumes) {
		words = append(words, "its additional volumes are other ones")
	}
	if patch, err := staticpod.ParsePatch(c.Patch); err != nil || patch != have.Patch {
		words = append(words, "its patch is another one")
	}
	if c.Limits != (component.Limits{}) {
		words = append(words, "it has no limits")
	}
	return words
}

// ReturnDifferences is InheritedDifferences for a component that has run otherwise meanwhile: its manifest may only
// name files that the provider maintains as well.
func ReturnDifferences(have staticpod.Inherited, c component.Component) []string {
	words := InheritedDifferences(have, c)
	for _, flag := range slices.Sorted(maps.Keys(have.Flags)) {
		has, wants := have.Flags[flag], c.Flags[flag]
		_, owned := component.OwnedFlags[c.Name][flag]
		if owned && path.IsAbs(has) && has != wants && inheritedPaths[flag] != has && has != memberCA {
			words = append(words, fmt.Sprintf("flag --%s is %q, which nobody has maintained", flag, has))
		}
	}
	return words
}

// memberCA is what kubeadm's API server verifies members with. It is the file of the member on the same machine, and
// component.EtcdClientCA is a copy of it.
const memberCA = "/etc/kubernetes/pki/etcd/ca.crt"

// inheritedPaths are where kubeadm has the files of flags by which an API server and a controller-manager trust others
// and are trusted. With other files, or more, clients and tokens are accepted that would not be later.
var inheritedPaths = map[string]string{
	"client-ca-file":                   "/etc/kubernetes/pki/ca.crt",
	"requestheader-client-ca-file":     "/etc/kubernetes/pki/front-proxy-ca.crt",
	"service-account-key-file":         "/etc/kubernetes/pki/sa.pub",
	"service-account-signing-key-file": "/etc/kubernetes/pki/sa.key",
	"service-account-private-key-file": "/etc/kubernetes/pki/sa.key",
	"tls-cert-file":                    "/etc/kubernetes/pki/apiserver.crt",
	"root-ca-file":                     "/etc/kubernetes/pki/ca.crt",
	"cluster-signing-cert-file":        "/etc/kubernetes/pki/ca.crt",
	"cluster-signing-key-file":         "/etc/kubernetes/pki/ca.key",
}

// sameFlag reports whether two values of a flag mean the same: copies of one file, the addresses of the member on the
// same machine, members in another order, and plugins of which the provider enables more.
func sameFlag(c component.Component, flag, has, wants string) bool {
	_, owned := component.OwnedFlags[c.Name][flag]
	switch {
	case flag == "etcd-servers":
		return component.IsLoopbackURL(has) && wants == component.MemberURL(c.Flags["advertise-address"]) ||
			slices.Equal(slices.Sorted(strings.SplitSeq(has, ",")), slices.Sorted(strings.SplitSeq(wants, ",")))
	case flag == component.AdmissionFlag:
		return component.Admits(wants, has)
	case owned && path.IsAbs(has) && path.IsAbs(wants) && !strings.Contains(has, "\n"):
		kubeadms, trusts := inheritedPaths[flag]
		return !trusts || has == kubeadms
	}
	return false
}

// Added describes the flags that the next restart of a component of kubeadm brings.
func Added(have staticpod.Inherited, c component.Component) []string {
	var words []string
	for _, flag := range slices.Sorted(maps.Keys(c.Flags)) {
		if has, there := have.Flags[flag]; !there || has != c.Flags[flag] {
			words = append(words, fmt.Sprintf("%s --%s=%s", c.Name, flag, c.Flags[flag]))
		}
	}
	return words
}
