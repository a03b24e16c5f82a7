package controlplane

import (
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

const controllerManagerPort = 10257

// terminatedPods is how many pods that have ended are kept: upstream's own number,
// said aloud (the benchmark's 1.3.1). Fewer would take the logs of Jobs away.
const terminatedPods = "12500"

// controllerManager follows kubeadm's getControllerManagerCommand (v1.34). It
// reaches the API server of its own machine, which is what makes an upgrade
// machine by machine legal.
func controllerManager(s Replica) component {
	flags := hardening()
	flags["bind-address"] = "127.0.0.1"
	flags["leader-elect"] = "true"
	flags["kubeconfig"] = controllerManagerConf
	flags["authentication-kubeconfig"] = controllerManagerConf
	flags["authorization-kubeconfig"] = controllerManagerConf
	flags["client-ca-file"] = clientCA
	flags["requestheader-client-ca-file"] = frontProxyCA
	flags["root-ca-file"] = caCert
	flags["service-account-private-key-file"] = saKey
	flags["use-service-account-credentials"] = "true"
	flags["controllers"] = "*,bootstrapsigner,tokencleaner"
	flags["terminated-pod-gc-threshold"] = terminatedPods
	flags["cluster-name"] = s.Bundle.ClusterName
	if len(s.PodCIDRs) > 0 {
		flags["allocate-node-cidrs"] = "true"
		flags["cluster-cidr"] = strings.Join(s.PodCIDRs, ",")
		flags["service-cluster-ip-range"] = strings.Join(s.ServiceCIDRs, ",")
	}
	inputs := []string{controllerManagerConf, saKey, caCert}
	if s.signs() {
		flags["cluster-signing-cert-file"] = signingCA
		flags["cluster-signing-key-file"] = caKey
		// It could reload the two; a restart is when both are known to be in use.
		inputs = append(inputs, signingCA, caKey)
	}
	return component{
		name:         release.ControllerManager,
		program:      program(s.Version, release.ControllerManager).Path(),
		flags:        withExtra(flags, s.ExtraArgs[release.ControllerManager]),
		borrowed:     map[string]string{"service-account-private-key-file": saKey},
		inputs:       inputs,
		limits:       s.Limits[release.ControllerManager],
		certificates: []string{controllerManagerConf},
		probe:        probe{address: "127.0.0.1", port: controllerManagerPort, path: "/healthz"},
	}
}
