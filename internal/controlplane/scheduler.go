package controlplane

import "github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"

const schedulerPort = 10259

// scheduler follows kubeadm's getSchedulerCommand (v1.34). It reaches the API
// server of its own machine.
func scheduler(s Replica) component {
	flags := hardening()
	flags["bind-address"] = "127.0.0.1"
	flags["leader-elect"] = "true"
	flags["kubeconfig"] = schedulerConf
	flags["authentication-kubeconfig"] = schedulerConf
	flags["authorization-kubeconfig"] = schedulerConf
	return component{
		name:         release.Scheduler,
		program:      program(s.Version, release.Scheduler).Path(),
		flags:        withExtra(flags, s.ExtraArgs[release.Scheduler]),
		inputs:       []string{schedulerConf},
		limits:       s.Limits[release.Scheduler],
		certificates: []string{schedulerConf},
		probe:        probe{address: "127.0.0.1", port: schedulerPort, path: "/readyz"},
	}
}
