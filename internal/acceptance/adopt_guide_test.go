package acceptance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// adoption is the configuration of the guide "Adopt a kubeadm control plane", in the lab.
type adoption struct{ resources, imports string }

// adoptedAt are the values of the lab that stand instead of those of the guide.
type adoptedAt struct {
	first, endpoint  string // addresses of the machine cp1 and of the endpoint
	kubernetes, etcd string // versions
}

// adoptedIn returns the values for an endpoint, and for what kubeadm has installed.
func adoptedIn(endpoint, kubernetes, etcd string) adoptedAt {
	return adoptedAt{first: address("cp1"), endpoint: endpoint, kubernetes: kubernetes, etcd: etcd}
}

// adoptionGuide returns the blocks of the guide that this test runs. The first one is of the section "Import".
func adoptionGuide(t *testing.T) []string {
	t.Helper()
	return documentedConfigurations(t, "adopt-kubeadm")
}

// adoptionOf returns the configuration of blocks of the guide. A resource or an import of a later block stands instead
// of the earlier one with its name, as the guide says. Apart from that, the blocks are as they are written, with these
// replacements:
//
//	prod                  this, as in the examples
//	10.0.0.11 ... .13     the machines of the test, in local.hosts
//	10.0.0.11             the machine cp1, from which the bundle and an endpoint are imported
//	10.0.0.100            the address of the endpoint
//	1.36.3, 3.6.16        what kubeadm has installed
//
// and those in more, which the test describes. The blocks terraform and provider, and a kubeconfig for the test, are
// those of the example control-plane.
func adoptionOf(t *testing.T, blocks []string, at adoptedAt, more ...string) adoption {
	t.Helper()
	var all []markdown.Section
	for _, block := range blocks {
		shown, loose := markdown.Sections(block)
		if len(loose) > 0 {
			t.Fatalf("these lines of the guide are in no section: %q", loose)
		}
		all = markdown.Instead(all, shown)
	}
	var resources, imports strings.Builder
	for _, s := range all {
		if s.Head == "import" {
			imports.WriteString(s.String())
		} else {
			resources.WriteString(s.String())
		}
	}
	const mark = "# imports\n"
	text := replaced(t, resources.String()+mark+imports.String(), append(slices.Clone(more),
		`{ cp1 = "10.0.0.11", cp2 = "10.0.0.12", cp3 = "10.0.0.13" }`, "var.machines",
		`"10.0.0.11"`, `"`+at.first+`"`,
		`"10.0.0.100"`, `"`+at.endpoint+`"`,
		`"1.36.3"`, `"`+at.kubernetes+`"`,
		`"3.6.16"`, `"`+at.etcd+`"`,
		`"prod"`, `"this"`,
		`.prod`, `.this`,
	)...)
	var a adoption
	a.resources, a.imports, _ = strings.Cut(text, mark)
	return a
}

// labSettings make a control plane one that the test can destroy, soon.
const labSettings = `resource "kube_pki_bundle" "this" {
  deletion_protection = false
}

resource "kube_control_plane_endpoint" "this" {
  drain_timeout = var.drain_timeout
}
`

// write writes the configuration without the imports, and the settings of the lab.
func (a adoption) write(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "examples", "control-plane", "main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	sections, _ := markdown.Sections(string(example))
	for _, s := range sections {
		if slices.Contains([]string{"terraform", `provider "kube"`, `resource "kube_kubeconfig" "admin"`}, s.Head) {
			text.WriteString(s.String())
		}
	}
	write(t, filepath.Join(w.Dir, "main.tf"), text.String()+a.resources)
	write(t, filepath.Join(w.Dir, "lab_override.tf"), labSettings)
}

// importFrom writes the imports. A text without any ends them.
func importFrom(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	write(t, filepath.Join(w.Dir, "imports.tf"), text)
}

// TestAdoptionOf: the tests of adoption replace everything in the guide that is not so in the lab, and each resource
// and import is there once.
func TestAdoptionOf(t *testing.T) {
	at := adoptedAt{first: "10.97.0.11", endpoint: "10.97.0.100", kubernetes: "1.35.9", etcd: "3.5.9"}
	blocks := func(test string) (out []string) {
		for _, b := range blocksRunBy(t, test) {
			if isConfiguration(b) && b.File == "templates/guides/adopt-kubeadm.md" {
				out = append(out, b.Text)
			}
		}
		return out
	}
	balanced := blocks("TestAdoptHAProxy")
	for name, c := range map[string]struct {
		blocks    []string
		more      []string
		resources int
		imports   int
	}{
		"TestAdoptKubeadm":      {blocks("TestAdoptKubeadm"), nil, 4, 3},
		"TestAdoptOlderKubeadm": {blocks("TestAdoptOlderKubeadm"), nil, 4, 3},
		"TestAdoptKubeVIP":      {blocks("TestAdoptKubeVIP"), nil, 4, 4},
		"without the endpoint":  {blocks("TestAdoptKubeVIP")[:1], nil, 4, 3},
		"prepared":              {handOverStep(t, balanced, "prepare"), nil, 5, 3},
		"taken":                 {handOverStep(t, balanced, "take"), nil, 5, 3},
		"alone":                 {handOverStep(t, balanced, ""), nil, 4, 3},
		"TestAdoptExternalEtcd": {
			blocks("TestAdoptExternalEtcd"),
			[]string{etcdMachines, `{ cp3 = "10.97.0.13" }`, etcdBundle, `"10.97.0.11,10.97.0.13"`},
			4, 3,
		},
	} {
		a := adoptionOf(t, c.blocks, at, c.more...)
		for _, left := range []string{"10.0.0.", "prod", "1.36.", "3.6.", "import"} {
			if strings.Contains(a.resources, left) {
				t.Errorf("%s: the resources have %q:\n%s", name, left, a.resources)
			}
		}
		for _, left := range []string{"10.0.0.", "prod"} {
			if strings.Contains(a.imports, left) {
				t.Errorf("%s: the imports have %q:\n%s", name, left, a.imports)
			}
		}
		resources, imports := strings.Count(a.resources, "resource \""), strings.Count(a.imports, "import {")
		if resources != c.resources || imports != c.imports {
			t.Errorf("%s: %d resources and %d imports, want %d and %d:\n%s%s", name, resources, imports, c.resources,
				c.imports, a.resources, a.imports)
		}
	}
}
