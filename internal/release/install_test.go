package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install lays the release out as a filesystem mirror (packed layout: the zips
// as they are published), installs it by "init" in an empty directory with no
// way out to a network, and starts it for its schema.
func install(t *testing.T, made snapshot, cli, registry string) {
	dir := t.TempDir()
	mirror := filepath.Join(dir, "mirror", registry, "kubequorum", "kube")
	if err := os.MkdirAll(mirror, 0o755); err != nil {
		t.Fatal(err)
	}
	zipped := made.name(platform + ".zip")
	if err := os.Link(made.path(platform+".zip"), filepath.Join(mirror, zipped)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cli.tfrc"),
		fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", filepath.Join(dir, "mirror")))
	write(t, filepath.Join(dir, "main.tf"), fmt.Sprintf(`terraform {
  required_providers {
    kube = {
      source  = "kubequorum/kube"
      version = %q
    }
  }
}
`, made.version))

	command(t, cli, dir, "init", "-input=false", "-no-color")
	var schemas struct {
		Providers map[string]struct {
			Resources map[string]json.RawMessage `json:"resource_schemas"`
		} `json:"provider_schemas"`
	}
	if err := json.Unmarshal([]byte(command(t, cli, dir, "providers", "schema", "-json")), &schemas); err != nil {
		t.Fatal(err)
	}
	provider := schemas.Providers[registry+"/kubequorum/kube"]
	for _, resource := range []string{
		"kube_pki_bundle", "kube_control_plane_endpoint", "kube_etcd_member",
		"kube_control_plane_replica",
	} {
		if len(provider.Resources[resource]) == 0 {
			t.Errorf("the installed provider has no %s", resource)
		}
	}
	if !strings.Contains(read(t, filepath.Join(dir, ".terraform.lock.hcl")),
		fmt.Sprintf("version     = %q", made.version)) {
		t.Error("the lock file does not have the release's version")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs the CLI in dir, with none of the user's settings.
func command(t *testing.T, cli, dir string, args ...string) string {
	t.Helper()
	c := offline(t, cli, args...)
	c.Dir = dir
	c.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "TF_") })
	c.Env = append(c.Env, "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "cli.tfrc"), "CHECKPOINT_DISABLE=1")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(cli), args[0], err, out, stderr.String())
	}
	return string(out)
}
