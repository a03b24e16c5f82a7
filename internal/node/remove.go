package node

import (
	"context"
	_ "embed" // of the script
	"fmt"
	"path"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

//go:embed remove.sh
var removeScript host.Script

// users are the records of what is run by the kubelet: an etcd member, and a replica.
var users = []string{"/etc/etcd/member.json", "/etc/kubernetes/replica.json"}

// Remove removes what Install has installed, once nothing on the machine needs it any more: there is neither a member
// nor a replica, there is no file in the directory of manifests, no container runs, and the machine has not become a
// node of a cluster. Otherwise it changes nothing.
func Remove(ctx context.Context, m Machine) error {
	script := host.FlushFunction() + removeScript.WithoutComments()
	command := packages.Node().WithRemoval(script, map[string]string{
		"node_record": RecordPath, "node_unit_file": UnitPath, "node_manifests": staticpod.Directory,
		"node_config": ConfigPath, "node_containerd": containerdConfig, "node_users": strings.Join(users, " "),
		"node_programs": path.Dir(path.Dir(Artifact("0").Path())),
	})
	if _, err := m.Run(ctx, command); err != nil {
		return fmt.Errorf("remove the kubelet: %w", err)
	}
	return nil
}
