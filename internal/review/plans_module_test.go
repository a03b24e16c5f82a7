package review

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// makeOfModule makes plans of the module and both data sources. In "asked" they are read for
// the plan. In "deferred" they wait for a change that a pull request makes to the same
// machines.
func makeOfModule(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, "cp1", "cp2", "cp3")
	dir := stacked(t)
	w, err := workspace.Open(ctx, l, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "beside.tf", askingModule(""))
	if err := w.MakeFrom(ctx, os.DirFS(dir), t.Output()); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteJSON("terraform.tfvars.json", map[string]any{"machines": w.Machines(3)}); err != nil {
		t.Fatal(err)
	}
	applyAll(t, w)
	if _, err := l.Machine("cp2").Run(ctx, "systemctl stop kube-scheduler"); err != nil {
		t.Fatal(err)
	}
	keep(t, w, "asked")
	put(t, dir, "beside.tf", askingModule("depends_on = [module.control_plane]"))
	put(t, dir, "inputs_override.tf", changedInputs)
	keep(t, w, "deferred")
}

// stacked returns a copy of the example of that name, next to the module that it uses.
func stacked(t *testing.T) string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, folder := range []string{"examples/stacked", "modules/control-plane"} {
		if err := os.CopyFS(filepath.Join(tree, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(tree, "examples", "stacked")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// askingModule returns a configuration with both data sources in check blocks, and with more in
// each data source.
func askingModule(more string) string {
	text := ""
	for _, source := range [][2]string{{"kube_control_plane", "healthy"}, {"kube_production_readiness", "ready"}} {
		text += fmt.Sprintf(`
check %[1]q {
  %[3]s
  assert {
    condition     = data.%[1]s.this.%[2]s
    error_message = "see the comment"
  }
}
`, source[0], source[1], dataSource(source[0], "module.control_plane.pki", "module.control_plane.etcd_client_urls",
			"module.control_plane.endpoint", more))
	}
	return text
}

// dataSource returns a data source that queries a control plane.
func dataSource(kind, pki, etcd, endpoint, more string) string {
	return fmt.Sprintf(`data %q "this" {
    pki      = %s
    etcd     = %s
    endpoint = %s
    %s
  }
`, kind, pki, etcd, endpoint, more)
}

// changedInputs are the module inputs that a pull request changes.
const changedInputs = `
module "control_plane" {
  kubernetes = {
    version   = "1.36.3"
    audit     = { max_age_days = 90 }
    resources = { apiserver = { memory_max = "4G" } }
  }
}
`
