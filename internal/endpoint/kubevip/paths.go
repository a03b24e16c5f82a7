package kubevip

import "github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"

// Paths on a machine. The endpoint shares none of them. The scripts know one more: the file registered in
// configDir exists while the replica is in rotation. Without it, kube-vip does not run.
const (
	configDir = "/etc/kube-endpoint-kube-vip"

	programDir = "/opt/kube/endpoint-kube-vip"
	agentPath  = programDir + "/agent"

	// credentialPath is the kubeconfig that package controlplane writes for a replica of an endpoint with a Lease.
	credentialPath = "/etc/kubernetes/kube-vip-endpoint.conf"

	// peersPath has the routers and the passwords of their sessions.
	peersPath = configDir + "/" + peersName
	peersName = "peers.yaml"

	// metricsPort is where kube-vip says on the loopback interface which sessions it has.
	metricsPort = 21790

	runName = "kube-endpoint-kube-vip" // the directory below /run that the unit creates and removes
	runDir  = "/run/" + runName

	unitName = "kube-endpoint-kube-vip.service"
	unitPath = agent.UnitDir + unitName
)
