package pod

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// FuzzRead verifies that a report names only programs of releases, and files of the kubelet's directory.
func FuzzRead(f *testing.F) {
	f.Add("pod\tcontainer\tkube-scheduler\tabababababababab\tRUNNING\t7\t\nreplica\tkube-scheduler\tversion\t1.36.3\n")
	f.Add("pod\tduplicate\tkube-scheduler\t/etc/kubernetes/manifests/../x\nreplica\tkube-scheduler\tplaced\textra\n")
	f.Fuzz(func(t *testing.T, output string) {
		s := Read(output, release.Scheduler)
		if s.Program != "" && (!release.IsVersion(version(s.Program)) || path.Clean(s.Program) != s.Program) {
			t.Errorf("%q runs %q", output, s.Program)
		}
		for _, file := range s.Duplicates {
			if path.Dir(file) != staticpod.Directory {
				t.Errorf("%q has %q", output, file)
			}
		}
	})
}

// FuzzParse verifies that what a definition says would be accepted from a configuration.
func FuzzParse(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\n")
	definition, err := os.ReadFile("testdata/kube-controller-manager.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(definition))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if ValidateLimits(p.Limits) != nil || !release.IsVersion(version(p.Program)) || strings.Contains(p.Program, "..") ||
			p.ImageRepository != "" && component.ValidateImageRepository(p.ImageRepository) != nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	})
}

// FuzzLimits verifies that limits are read back from the definition as they were.
func FuzzLimits(f *testing.F) {
	f.Add("4G", "1048576", "200%")
	f.Fuzz(func(t *testing.T, most, least, processors string) {
		l := component.Limits{MemoryMax: most, MemoryMin: least, CPUQuota: processors}
		if ValidateLimits(l) != nil {
			return
		}
		s := componenttest.Stacked(t)
		s.Limits = map[string]component.Limits{release.Scheduler: l}
		for _, c := range component.Of(s) {
			if p, err := Parse(string(File(c).Content)); c.Name == release.Scheduler && (err != nil || p.Limits != l) {
				t.Errorf("%+v is read as %+v, %v", l, p.Limits, err)
			}
		}
	})
}
