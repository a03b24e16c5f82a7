package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	const gomod = `module example.com/tools

go 1.26.0

tool example.com/a/cmd/a

require example.com/alone v0.1.2

require (
	example.com/a v1.36.3 // indirect
	example.com/a/b v3.0.0-rc.1
)

replace (
	example.com/c => example.com/c v0.36.3
)
`
	for module, want := range map[string]string{
		"example.com/alone": "0.1.2",
		"example.com/a":     "1.36.3",
		"example.com/a/b":   "3.0.0-rc.1",
		"example.com/c":     "", // replaced, not required
		"example.com":       "",
	} {
		got, err := requiredVersion(gomod, module)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("requiredVersion(%s) = %q, %v; want %q", module, got, err, want)
		}
	}
}

func TestExecutable(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubectl":         "kubectl",
		"go.etcd.io/etcd/server/v3":             "server",
		"mvdan.cc/gofumpt":                      "gofumpt",
		"example.com/v2/cmd/golangci-lint":      "golangci-lint",
		"github.com/opentofu/opentofu/cmd/tofu": "tofu",
	} {
		if got := (program{pkg: pkg}).executable(); got != want {
			t.Errorf("executable of %s is %q, want %q", pkg, got, want)
		}
	}
	if got := (program{pkg: "k8s.io/kubernetes/test/e2e", test: true}).executable(); got != "e2e.test" {
		t.Errorf("executable of the tests is %q", got)
	}
}

func TestDirectory(t *testing.T) {
	for name, want := range map[string]string{
		"etcd":     "/cache/components/etcd-v1.2.3",
		"etcd-3.5": "/cache/components/etcd-v1.2.3",
		"tofu":     "/cache/tools/tofu-v1.2.3",
	} {
		s, err := lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.directory("/cache", "1.2.3"); got != want {
			t.Errorf("directory of %s is %s, want %s", name, got, want)
		}
	}
}

func TestKubernetesStamp(t *testing.T) {
	got := strings.Join(kubernetesStamp("1.36.3"), " ")
	const pkg = "-X k8s.io/component-base/version."
	want := pkg + "gitVersion=v1.36.3 " + pkg + "gitMajor=1 " + pkg + "gitMinor=36 " + pkg + "gitTreeState=clean"
	if got != want {
		t.Errorf("kubernetesStamp = %s\nwant %s", got, want)
	}
}

func TestLookupNamesTheChoices(t *testing.T) {
	_, err := lookup("etdc")
	if err == nil || !strings.Contains(err.Error(), "etcd, etcd-3.5") {
		t.Errorf("lookup of an unknown name: %v", err)
	}
}

// TestCatalogueIsPinned compares the catalogue with tools/: every set has a version, and every
// package is a pinned tool of its module.
func TestCatalogueIsPinned(t *testing.T) {
	root, err := Checkout()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogue() {
		if _, err := s.version(root); err != nil {
			t.Error(err)
		}
		gomod, err := os.ReadFile(filepath.Join(s.module(root), "go.mod"))
		if err != nil {
			t.Error(err)
		}
		fields := strings.Fields(string(gomod))
		for _, p := range s.programs {
			if !slices.Contains(fields, p.pkg) {
				t.Errorf("%s/go.mod does not name tool %s", s.folder, p.pkg)
			}
		}
	}
}

// TestEndToEndTestsAreOfTheDefault: a control plane is judged by the tests of its own release.
func TestEndToEndTestsAreOfTheDefault(t *testing.T) {
	versions := map[string]bool{}
	for _, name := range []string{"kubernetes", "kubernetes-1.36-node", "kubernetes-1.36-e2e"} {
		version, err := Version(name)
		if err != nil {
			t.Fatal(err)
		}
		versions[version] = true
	}
	if len(versions) != 1 {
		t.Errorf("the control plane, its nodes and the tests are of several releases: %v", versions)
	}
}
