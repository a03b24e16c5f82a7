package component

import (
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

const controllerManagerPort = 10257

// terminatedPods is the number of terminated pods that are kept. It is upstream's default, set
// explicitly (the benchmark's 1.3.1). A lower number would remove the logs of Jobs.
const terminatedPods = "12500"

// controllerManager follows kubeadm's getControllerManagerCommand (v1.36). It connects to the
// API server of its own machine, so that a machine-by-machine upgrade respects the version skew
// policy.
func controllerManager(s Replica) Component {
	flags := hardening()
	flags["bind-address"] = s.listens()
	flags["leader-elect"] = "true"
	flags["kubeconfig"] = ControllerManagerConf
	flags["authentication-kubeconfig"] = ControllerManagerConf
	flags["authorization-kubeconfig"] = ControllerManagerConf
	flags["client-ca-file"] = ClientCA
	flags["requestheader-client-ca-file"] = FrontProxyCA
	flags["root-ca-file"] = CACert
	flags["service-account-private-key-file"] = SAKey
	flags["use-service-account-credentials"] = "true"
	flags["controllers"] = "*,bootstrapsigner,tokencleaner"
	flags["terminated-pod-gc-threshold"] = terminatedPods
	flags["cluster-name"] = s.Bundle.ClusterName
	if len(s.PodCIDRs) > 0 {
		flags["allocate-node-cidrs"] = "true"
		flags["cluster-cidr"] = strings.Join(s.PodCIDRs, ",")
		flags["service-cluster-ip-range"] = strings.Join(s.ServiceCIDRs, ",")
	}
	inputs := []string{ControllerManagerConf, SAKey, CACert}
	if s.signs() {
		flags["cluster-signing-cert-file"] = SigningCA
		flags["cluster-signing-key-file"] = CAKey
		// The program could reload the two; after a restart they are known to be in use.
		inputs = append(inputs, SigningCA, CAKey)
	}
	return Component{
		Name:         release.ControllerManager,
		Program:      Artifact(s.Version, release.ControllerManager).Path(),
		Flags:        withExtra(flags, s.ExtraArgs[release.ControllerManager]),
		Borrowed:     map[string]string{"service-account-private-key-file": SAKey},
		Inputs:       inputs,
		Limits:       s.Limits[release.ControllerManager],
		Certificates: []string{ControllerManagerConf},
		Probe: probe{
			Address: LocalAddress, Port: controllerManagerPort, Path: "/healthz", AllAddresses: s.MetricsAddress != "",
		},
	}
}
