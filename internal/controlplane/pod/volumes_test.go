package pod

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// TestExtraVolumes: volumes of the user are mounted, read back, and make files visible to flags.
func TestExtraVolumes(t *testing.T) {
	s := wanted(t)
	plain := Of(component.Of(s)[0])
	volumes := map[string]component.Volume{
		"ca-certs": {HostPath: "/srv/certs", MountPath: "/srv/certs"},
		"tracing":  {HostPath: "/srv/tracing", MountPath: "/etc/tracing", ReadOnly: true, PathType: "Directory"},
	}
	s.ExtraVolumes = map[string]map[string]component.Volume{release.APIServer: volumes}
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {"tracing-config-file": "/etc/tracing/config.yaml"}}
	if err := Validate(s); err != nil {
		t.Error(err)
	}
	c := component.Of(s)[0]
	got, err := Parse(string(File(c).Content))
	if err != nil || !reflect.DeepEqual(got.Volumes, volumes) {
		t.Errorf("read back as %+v, %v", got.Volumes, err)
	}
	var names []string
	for _, m := range Of(c).Mounts {
		if slices.Contains(names, m.Name) {
			t.Errorf("two mounts %s", m.Name)
		}
		names = append(names, m.Name)
	}
	if len(names) != len(plain.Mounts)+2 || !slices.Contains(names, "ca-certs-own") {
		t.Errorf("mounts %q", names)
	}
	differences := strings.Join(staticpod.Differences(plain, Of(c)), "\n")
	if !strings.Contains(differences, `mount "tracing" is missing, wanted "/srv/tracing at /etc/tracing, read-only`) {
		t.Errorf("differences %q", differences)
	}
	s.ExtraVolumes = nil
	if err := Validate(s); err == nil || !strings.Contains(err.Error(), "extra_volumes") {
		t.Errorf("a file that is not mounted: %v", err)
	}
	for want, v := range map[string]component.Volume{
		"host_path":  {HostPath: "a", MountPath: "/a"},
		"mount_path": {HostPath: "/a", MountPath: "/a/../b"},
		"path_type":  {HostPath: "/a", MountPath: "/a", PathType: "Anything"},
	} {
		if err := component.ValidateVolumes(map[string]component.Volume{"x": v}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", v, err)
		}
	}
	if err := component.ValidateVolumes(map[string]component.Volume{
		"a": {HostPath: "/a", MountPath: "/x"}, "b": {HostPath: "/b", MountPath: "/x"},
	}); err == nil || !strings.Contains(err.Error(), "same mount_path") {
		t.Errorf("two at one path: %v", err)
	}
	if err := component.ValidateVolumes(map[string]component.Volume{"A_": {HostPath: "/a", MountPath: "/x"}}); err == nil {
		t.Error("a name that Kubernetes refuses")
	}
}

// TestLostMounts: a volume that is mounted twice cannot be carried, because it has one mount_path. Of one that the
// provider mounts too, the other mount can.
func TestLostMounts(t *testing.T) {
	twice := []staticpod.Mount{
		{Name: "extra", Path: "/srv/extra", At: "/srv/a"}, {Name: "extra", Path: "/srv/extra", At: "/srv/b"},
	}
	for name, c := range map[string]struct {
		mounts []staticpod.Mount
		want   []string
	}{
		"once":  {twice[:1], nil},
		"twice": {twice, []string{`the volume "extra", which is mounted more than once`}},
		"thrice": {
			append(twice, staticpod.Mount{Name: "extra", Path: "/srv/extra"}),
			[]string{`the volume "extra", which is mounted more than once`},
		},
		"the provider's too": {[]staticpod.Mount{
			{Name: "k8s-certs", Path: component.PKIDir}, {Name: "k8s-certs", Path: component.PKIDir, At: "/srv/pki"},
		}, nil},
	} {
		got := Lost(staticpod.Inherited{Name: release.APIServer, Mounts: c.mounts})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMountNames: a mount of a file has its name if that is a DNS label that no other mount has.
func TestMountNames(t *testing.T) {
	long := strings.Repeat("l", 60) + ".conf"
	volumes := map[string]component.Volume{
		"files": {HostPath: "/srv/a", MountPath: "/srv/a"}, "files-own": {HostPath: "/srv/b", MountPath: "/srv/b"},
		"taken-conf": {HostPath: "/srv/c", MountPath: "/srv/c"},
	}
	at := func(names ...string) string {
		var all []string
		for _, name := range names {
			all = append(all, component.KubernetesDir+"/"+name)
		}
		return strings.Join(all, ",")
	}
	c := component.Component{Name: release.APIServer, Volumes: volumes, Flags: map[string]string{
		"some-file": at("a.conf", "a-conf", "ca-certs", "Upper.conf", "under_score.conf", ".hidden", long, "taken.conf",
			"files/mine"),
	}}
	got, names := map[string]string{}, map[string]bool{}
	for _, m := range mounts(c) {
		if names[m.Name] || len(validation.IsDNS1123Label(m.Name)) > 0 {
			t.Errorf("%s is mounted as %q", m.Path, m.Name)
		}
		names[m.Name], got[m.Path] = true, m.Name
	}
	for file, want := range map[string]string{
		at("a-conf"): "a-conf", at("a.conf"): "file-f50ee026e3", at("ca-certs"): "file-0b7a9cd6d8", trusted: "ca-certs",
		at("Upper.conf"): "file-", at("under_score.conf"): "file-", at(".hidden"): "file-", at(long): "file-",
		at("taken.conf"): "taken-conf-own", at("files"): "file-", "/srv/a": "files", "/srv/b": "files-own",
	} {
		if name := got[file]; name != want && (want != "file-" || !strings.HasPrefix(name, want) || len(name) != 15) {
			t.Errorf("%s is mounted as %q, want %q", file, name, want)
		}
	}
}
