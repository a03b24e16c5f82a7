package node

import (
	"context"
	_ "embed" // of the script
	"fmt"
	"path"
	"slices"
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
// nor a replica, except the one that leaves, there is no file in the directory of manifests, no container runs, and the
// machine has not become a node of a cluster. Otherwise it changes nothing.
//
// leaving is the record of the member or replica that leaves, and is all that is left of it. It goes last, by forget:
// without it, nobody would know that a removal that was cut off has to be completed.
func Remove(ctx context.Context, m Machine, leaving string, forget host.Script) error {
	if _, err := m.Run(ctx, removal(leaving, forget)); err != nil {
		return fmt.Errorf("remove the kubelet: %w", err)
	}
	return nil
}

func removal(leaving string, forget host.Script) host.Command {
	others := slices.DeleteFunc(slices.Clone(users), func(record string) bool { return record == leaving })
	script := host.FlushFunction() + "(\n" + removeScript.WithoutComments() + ")\n" + forget
	return packages.Node().WithRemoval(script, map[string]string{
		"node_record": RecordPath, "node_unit_file": UnitPath, "node_manifests": staticpod.Directory,
		"node_config": ConfigPath, "node_containerd": containerdConfig, "node_users": strings.Join(others, " "),
		"node_programs": path.Dir(path.Dir(Artifact("0").Path())),
	})
}
