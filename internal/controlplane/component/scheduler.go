package component

import "github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"

const schedulerPort = 10259

// scheduler follows kubeadm's getSchedulerCommand (v1.36). It connects to the API server of its
// own machine.
func scheduler(s Replica) Component {
	flags := hardening()
	flags["bind-address"] = s.listens()
	flags["leader-elect"] = "true"
	flags["kubeconfig"] = SchedulerConf
	flags["authentication-kubeconfig"] = SchedulerConf
	flags["authorization-kubeconfig"] = SchedulerConf
	return Component{
		Name:         release.Scheduler,
		Program:      Artifact(s.Version, release.Scheduler).Path(),
		Flags:        withExtra(flags, s.ExtraArgs[release.Scheduler]),
		Inputs:       []string{SchedulerConf},
		Limits:       s.Limits[release.Scheduler],
		Certificates: []string{SchedulerConf},
		Probe: probe{
			Address: LocalAddress, Port: schedulerPort, Path: "/readyz", AllAddresses: s.MetricsAddress != "",
		},
	}
}
