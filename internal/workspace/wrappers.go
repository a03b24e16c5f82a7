package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// WriteWrappers writes scripts that a person can type: the CLI as Command runs
// it at terraform, and kubectl at kubectl. The kubeconfig of that name in the
// workspace is the file that kubectl's script keeps.
func (w *Workspace) WriteWrappers(ctx context.Context, terraform, kubectl, kubeconfig string) error {
	kubernetes, err := build.Set(ctx, "kubernetes")
	if err != nil {
		return err
	}
	p := wrapped{
		netns: w.lab.NetNS(),
		cli: []string{
			"env", "TF_CLI_CONFIG_FILE=" + w.CLIConfig(), "CHECKPOINT_DISABLE=1", w.terraform,
			"-chdir=" + w.Dir,
		},
		kubectl:    filepath.Join(kubernetes, "kubectl"),
		kubeconfig: filepath.Join(w.Dir, kubeconfig),
	}
	for path, script := range map[string]string{terraform: p.terraformScript(), kubectl: p.kubectlScript()} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write wrapper: %w", err)
		}
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			return fmt.Errorf("write wrapper: %w", err)
		}
	}
	return nil
}

// wrapped is what the scripts run.
type wrapped struct {
	netns      string   // network namespace of the lab
	cli        []string // Terraform or OpenTofu with the workspace's settings
	kubectl    string
	kubeconfig string // file that kubectlScript keeps up to date
}

const wrapperHead = `#!/bin/sh
# Runs in the lab's network.
[ "$(id -u)" = 0 ] || exec sudo "$0" "$@"
`

func (p wrapped) terraformScript() string {
	return wrapperHead + "exec " + p.inLab(p.cli...) + ` "$@"` + "\n"
}

// kubectlScript reads the kubeconfig from the state each time: a destroy and
// another apply make a cluster with other authorities. A state without outputs is
// a warning on standard output and exit status 0, so the content is checked too.
func (p wrapped) kubectlScript() string {
	return wrapperHead + `umask 077
kubeconfig=` + p.kubeconfig + `
if ! ` + p.inLab(append(p.cli, "output", "-raw", "kubeconfig")...) + ` >"$kubeconfig.$$" ||
  ! grep -q "^kind: Config$" "$kubeconfig.$$"; then
  rm -f "$kubeconfig.$$"
  echo "demo-kubectl: the state has no kubeconfig: run bin/demo apply first" >&2
  exit 1
fi
mv "$kubeconfig.$$" "$kubeconfig"
exec ` + p.inLab("env") + ` KUBECONFIG="$kubeconfig" ` + p.kubectl + ` "$@"` + "\n"
}

// inLab is a command line that runs in the lab's network.
func (p wrapped) inLab(command ...string) string {
	return strings.Join(append([]string{"ip", "netns", "exec", p.netns}, command...), " ")
}
