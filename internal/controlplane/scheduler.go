package controlplane

const schedulerPort = 10259

// scheduler follows kubeadm's getSchedulerCommand (v1.34). It reaches the API
// server of its own machine.
func scheduler(s Spec) component {
	flags := hardening()
	flags["bind-address"] = "127.0.0.1"
	flags["leader-elect"] = "true"
	flags["kubeconfig"] = schedulerConf
	flags["authentication-kubeconfig"] = schedulerConf
	flags["authorization-kubeconfig"] = schedulerConf
	return component{
		name:         Scheduler,
		program:      program(s.Version, Scheduler).Path(),
		flags:        withExtra(flags, s.ExtraArgs[Scheduler]),
		inputs:       []string{schedulerConf},
		limits:       s.Limits[Scheduler],
		certificates: []string{schedulerConf},
		probe:        probe{address: "127.0.0.1", port: schedulerPort, path: "/readyz"},
	}
}
