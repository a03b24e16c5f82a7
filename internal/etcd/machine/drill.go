package machine

import (
	_ "embed"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// DrillFunctions are the shell functions that remove what a restore drill has on a machine. They need the variables of
// DrillVars.
//
//go:embed drill.sh
var DrillFunctions host.Script

// DrillVars returns the variables of DrillFunctions for a member with a data directory.
func DrillVars(dataDir string) map[string]string {
	return map[string]string{"root": layout.ArchiveRoot(dataDir), "run": layout.DrillRunDir}
}

// endDrill ends the drill on the machine of the member, if one runs: it has data beside the member's, and processes
// that keep its file system in use. A drill is repeated; a member that does not leave its machine is not.
func (a Action) endDrill() host.Script {
	return "(\n" + host.Assignments(DrillVars(a.DataDir)) + DrillFunctions.WithoutComments() + "end_drill\n)\n"
}
