package endpoint

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed install.sh
	installScript string
	//go:embed clean.sh
	cleanScript string
)

// installers are the package managers known to install.sh, best first.
func installers() []string { return []string{"apt-get", "dnf", "yum", "zypper"} }

// missingPackages names what the machine lacks; the packages are called the
// same everywhere. HAProxy's sockets need a client: Debian, Ubuntu and SUSE
// machines always have perl, so that socat is only wanted elsewhere.
func missingPackages(f host.Facts) []string {
	var missing []string
	for _, program := range []string{"haproxy", "keepalived"} {
		if f.Commands[program] == "" {
			missing = append(missing, program)
		}
	}
	if f.Commands["perl"] == "" && f.Commands["socat"] == "" {
		missing = append(missing, "socat")
	}
	return missing
}

func hasInstaller(f host.Facts) bool {
	return slices.ContainsFunc(installers(), func(name string) bool { return f.Commands[name] != "" })
}

// install gives the command that installs packages without starting their own
// units and remembers all that came with them.
func install(packages []string) host.Command {
	return host.Command{Script: "state=" + packagesDir + "\npackages='" + strings.Join(packages, " ") + "'\n" + installScript}
}
