package bgp

import "github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"

// Paths on a machine. The endpoint shares none of them. The scripts know one more: the file registered
// in configDir exists while the replica is in rotation. Without it, nothing is announced.
const (
	configDir  = "/etc/kube-endpoint-bgp"
	configPath = configDir + "/bird.conf"

	programDir  = "/opt/kube/endpoint-bgp"
	healthPath  = programDir + "/health"
	addressPath = programDir + "/address"

	// The directories below /run that units create and remove.
	runName        = "kube-endpoint-bgp"
	addressRunName = "kube-endpoint-bgp-address"

	socketPath = "/run/" + runName + "/bird.ctl"

	addressUnit = "kube-endpoint-bgp-address.service"
	birdUnit    = "kube-endpoint-bgp.service"
	healthUnit  = "kube-endpoint-bgp-health.service"

	birdUnitPath = agent.UnitDir + birdUnit

	// protocolName is the protocol of bird that has the route. It is disabled in the configuration.
	protocolName = "endpoint"
	bgpPort      = 179
)

// units are the units of the endpoint, in the order in which they stop.
func units() []string { return []string{healthUnit, birdUnit, addressUnit} }
