package pod

import (
	_ "embed"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

//go:embed replica.sh
var functions host.Script

// prelude defines the functions of the scripts below.
func prelude() host.Script {
	return staticpod.Functions() + directories(Dir) + functions
}

// directories sets the variables of replica.sh: the directory of the definitions, and those of manifests in it.
func directories(definitions string) host.Script {
	return "replica_pods=" + host.Words(definitions) + "\nreplica_inherited=" + host.Words(definitions+inherited) +
		"\nreplica_moved=" + host.Words(definitions+"/moved") + "\n"
}

// Restart returns a script that starts the named components from their definitions. It returns once no
// container of them runs that ran before. If it is interrupted, the kubelet completes the restart.
func Restart(names []string) host.Script { return each("replica_start", names) }

// Return is Restart from the manifests that kubeadm has written, and that were kept.
func Return(names []string) host.Script { return each("replica_return", names) }

// Resume is Restart for components that Leave has stopped, from whatever they ran from before.
func Resume(names []string) host.Script { return each("replica_resume", names) }

// each returns a script that calls a function with each name.
func each(function host.Script, names []string) host.Script {
	script := prelude()
	for _, name := range names {
		script += function + " " + host.Words(name) + "\n"
	}
	return script
}

// Stop returns a script that stops the named components, the API server last, and can be repeated. Their definitions
// stay. A component that is not on the machine is skipped.
func Stop(names []string) host.Script { return stop("replica_stop", names) }

// Leave is Stop for components that Resume starts, or that another runtime takes over. It notes which of them ran from
// a manifest of kubeadm.
func Leave(names []string) host.Script { return stop("replica_leave", names) }

func stop(function host.Script, names []string) host.Script {
	var others, last []string
	for _, name := range names {
		if name == release.APIServer {
			last = append(last, name)
		} else {
			others = append(others, name)
		}
	}
	return prelude() + function + " " + host.Words(append(others, last...)...) + "\n"
}

// Kill returns a script that ends the processes of a component at once.
func Kill(name string) host.Script { return prelude() + "replica_kill " + host.Words(name) + "\n" }

// Forget returns a script that follows the removal of the definitions. What else is in their directory are copies of
// manifests that were moved there.
func Forget() host.Script { return "rm -rf -- " + host.Words(Dir) + "\n" }

// Report returns a script whose output Read parses.
func Report(names []string) host.Script {
	return prelude() + "replica_report " + host.Words(names...) + "\n"
}

// Processes returns a script whose output host.ReadProcesses parses, by component.
func Processes(names []string) host.Script {
	return host.ProcessFunctions + prelude() + "replica_processes " + host.Words(names...) + "\n"
}

// Log returns a script that prints the last lines of a component's log.
func Log(name string, lines int) host.Script { return prelude() + staticpod.Log(name, lines) }

// Images returns the images of a replica, and what their archives are called.
func Images(s component.Replica) []staticpod.Image {
	var all []staticpod.Image
	for _, name := range release.Components() {
		all = append(all, staticpod.Image{
			Reference: s.Image(name), Archive: component.Artifact(s.Version, name+".tar"),
		})
	}
	return all
}

// Requirements returns a script whose output Problems parses.
func Requirements() host.Script { return prelude() + staticpod.Report(release.APIServer, "") }

// Problems lists what keeps static pods from running on the machine.
func Problems(output string) []string { return staticpod.Read(output, release.APIServer).Problems() }
