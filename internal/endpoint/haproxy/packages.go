package haproxy

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed packages.sh
	packagesScript host.Script
	//go:embed install.sh
	installScript host.Script
	//go:embed clean.sh
	cleanScript host.Script
)

// installers are the package managers that install.sh knows, in the order of preference.
func installers() []string { return []string{"apt-get", "dnf", "yum", "zypper"} }

// missingPackages returns the packages that the machine lacks, or may have only in part because an
// installation was interrupted. Their names are the same in all distributions. HAProxy's sockets
// need a client: Debian, Ubuntu and SUSE always have perl, so socat is needed only elsewhere.
func missingPackages(f host.Facts) []string {
	var missing []string
	_, cutOff := f.Files[installingPath]
	for _, program := range []string{"haproxy", "keepalived"} {
		if cutOff || programAt(f, program) == "" {
			missing = append(missing, program)
		}
	}
	if programAt(f, "perl") == "" && programAt(f, "socat") == "" {
		missing = append(missing, "socat")
	}
	return missing
}

func hasInstaller(f host.Facts) bool {
	return slices.ContainsFunc(installers(), func(name string) bool { return programAt(f, name) != "" })
}

// install returns the command that installs packages without starting their units, and records
// the packages that were installed with them.
func install(packages []string) host.Command {
	return host.Command{
		Script: withState(installScript),
		Vars:   with(packagesVars(), map[string]string{"packages": strings.Join(packages, " ")}),
	}
}

// clean returns the command that removes the endpoint from the machine, with the packages that
// were installed for it, unless the machine belongs to another endpoint.
func clean(s Spec) host.Command {
	return host.Command{Script: ownerScript + withState(cleanScript), Vars: with(packagesVars(), s.ownerVars())}
}

func packagesVars() map[string]string { return map[string]string{"state": packagesDir} }

func withState(script host.Script) host.Script {
	return "export DEBIAN_FRONTEND=noninteractive LC_ALL=C\n" + host.FlushFunction() + packagesScript + script
}
