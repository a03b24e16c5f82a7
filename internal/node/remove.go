package node

import (
	"context"
	_ "embed" // of the script
	"fmt"
	"path"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

//go:embed remove.sh
var removeScript host.Script

// Remove removes what Install has installed, once nothing on the machine needs it any more: there is no file in the
// directory of manifests, none of the paths exists, no container runs, and the machine has not become a node of a
// cluster. Otherwise it changes nothing.
func Remove(ctx context.Context, m Machine, unless ...string) error {
	needs := "node_needs() {\n  for node_path in " + host.Words(unless...) + "; do\n" +
		"    [ ! -e \"$node_path\" ] || return 0\n  done\n  return 1\n}\n"
	script := host.FlushFunction() + needs + removeScript.WithoutComments()
	command := packages.Node().WithRemoval(script, map[string]string{
		"node_record": RecordPath, "node_unit_file": UnitPath, "node_manifests": staticpod.Directory,
		"node_config": ConfigPath, "node_containerd": containerdConfig,
		"node_programs": path.Dir(path.Dir(Artifact("0").Path())),
	})
	if _, err := m.Run(ctx, command); err != nil {
		return fmt.Errorf("remove the kubelet: %w", err)
	}
	return nil
}
