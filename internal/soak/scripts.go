package soak

import (
	_ "embed"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
)

// Scripts for lab machines. The first lines of each describe its output.
var (
	//go:embed scripts/etcdctl.sh
	etcdctl string // functions for the other scripts
	//go:embed scripts/served.sh
	servedScript string
	//go:embed scripts/members.sh
	membersScript string
	//go:embed scripts/healthy.sh
	healthyScript string
	//go:embed scripts/components.sh
	componentsScript string
	//go:embed scripts/serving.sh
	servingScript string
	//go:embed scripts/part.sh
	partScript string
	//go:embed scripts/runs.sh
	runsScript string
	//go:embed scripts/running.sh
	runningScript string
	//go:embed scripts/restarts.sh
	restartsScript string
	//go:embed scripts/rotation.sh
	rotationScript string
	//go:embed scripts/elections.sh
	electionsScript string
	//go:embed scripts/leftovers.sh
	leftoversOn string
	//go:embed scripts/files.sh
	filesOn string
	//go:embed scripts/state.sh
	stateScript string
)

// Volumes of members are other file systems than those of their machines.
var (
	leftoversScript = secretscan.FindVolumes + leftoversOn
	filesScript     = secretscan.FindVolumes + filesOn
)

// with sets the variables of a script, quoted.
func with(vars map[string]string, script string) string {
	return string(host.Assignments(vars)) + script
}
