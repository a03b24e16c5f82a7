package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubectlFollowsTheState runs the script with stand-ins for ip, id, the CLI
// and kubectl. The CLI prints the file "output", which stands for the state.
func TestKubectlFollowsTheState(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"bin/id":      "echo 0",
		"bin/ip":      `shift 3; exec "$@"`,
		"bin/tofu":    `[ "$2 $3 $4" = "output -raw kubeconfig" ] && cat "$(dirname "$0")/../output"`,
		"bin/kubectl": `echo "$(cat "$KUBECONFIG") $*"`,
	} {
		put(t, filepath.Join(dir, name), "#!/bin/sh\n"+script+"\n")
	}
	p := wrapped{
		netns:   "lab-demo",
		cli:     []string{"env", "TF_CLI_CONFIG_FILE=cli.tfrc", filepath.Join(dir, "bin/tofu"), "-chdir=" + dir},
		kubectl: filepath.Join(dir, "bin/kubectl"), kubeconfig: filepath.Join(dir, "kubeconfig"),
	}
	script := filepath.Join(dir, "demo-kubectl")
	put(t, script, p.kubectlScript())
	run := func() (string, error) {
		command := exec.CommandContext(t.Context(), script, "get", "namespaces")
		command.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for _, cluster := range []string{"first", "second"} { // a destroy and an apply between them
		put(t, filepath.Join(dir, "output"), "kind: Config\ncurrent-context: "+cluster+"\n")
		if out, err := run(); err != nil || !strings.HasSuffix(out, "current-context: "+cluster+" get namespaces") {
			t.Errorf("with the %s cluster kubectl says %q, %v", cluster, out, err)
		}
	}
	refuses := func(state string) {
		t.Helper()
		if out, err := run(); err == nil || !strings.Contains(out, "run bin/demo apply first") ||
			strings.Contains(out, "namespaces") {
			t.Errorf("with %s the script says %q, %v", state, out, err)
		}
	}
	put(t, filepath.Join(dir, "output"), "Warning: No outputs found\n")
	refuses("a state without outputs")
	if err := os.Remove(filepath.Join(dir, "output")); err != nil {
		t.Fatal(err)
	}
	refuses("a CLI that fails")
	left, err := filepath.Glob(filepath.Join(dir, "kubeconfig.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}
