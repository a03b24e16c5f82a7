// Package packages installs what endpoints and static pods need on a machine with the machine's package manager, and
// removes exactly that with them. Its scripts know apt-get, dnf, yum and zypper.
package packages

import (
	_ "embed"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed transactions.sh
	transactionsScript host.Script
	//go:embed install.sh
	installScript host.Script
	//go:embed remove.sh
	removeScript host.Script
)

// Package is a package of the distribution.
type Package struct {
	Name     string
	Debian   string   // its name where apt-get installs packages; "" means Name
	Programs []string // if the machine lacks one of these, it lacks the package
	Instead  string   // a program that serves as well; "" if there is none
	Unit     string   // the distribution's unit, which must not start: the endpoint has its own
}

// Set is the packages for one purpose, such as a kind of endpoint.
type Set struct {
	ConfigDir string // exists on a machine as long as they are needed
	StateDir  string // on a machine: records which packages were installed
	Packages  []Package
}

// HAProxy is the packages of a balancer. HAProxy's sockets need a client: Debian, Ubuntu and SUSE
// always have perl, so socat is needed only elsewhere.
func HAProxy() Set {
	return Set{
		ConfigDir: "/etc/haproxy/kube", StateDir: "/var/lib/kube-endpoint",
		Packages: []Package{
			{Name: "haproxy", Programs: []string{"haproxy"}, Unit: "haproxy.service"},
			{Name: "keepalived", Programs: []string{"keepalived"}, Unit: "keepalived.service"},
			{Name: "socat", Programs: []string{"socat"}, Instead: "perl"},
		},
	}
}

// BGP is the packages of a machine that announces an address. Debian and Ubuntu keep bird's second
// version apart from the first.
func BGP() Set {
	return Set{
		ConfigDir: "/etc/kube-endpoint-bgp", StateDir: "/var/lib/kube-endpoint-bgp",
		Packages: []Package{
			{Name: "bird", Debian: "bird2", Programs: []string{"bird", "birdc"}, Unit: "bird.service"},
			{Name: "curl", Programs: []string{"curl"}},
		},
	}
}

// DNS is the packages of the agent that keeps a machine's record.
func DNS() Set {
	return Set{
		ConfigDir: "/etc/kube-endpoint-dns", StateDir: "/var/lib/kube-endpoint-dns",
		Packages: []Package{
			{Name: "bind-utils", Debian: "bind9-dnsutils", Programs: []string{"nsupdate", "dig"}},
			{Name: "curl", Programs: []string{"curl"}},
		},
	}
}

// Node is the packages of a machine that runs static pods. containerd comes with runc.
func Node() Set {
	return Set{
		ConfigDir: "/etc/kube-node", StateDir: "/var/lib/kube-node",
		Packages: []Package{
			{Name: "containerd", Programs: []string{"containerd", "ctr", "runc"}, Unit: "containerd.service"},
		},
	}
}

func sets() []Set { return []Set{HAProxy(), BGP(), DNS(), Node()} }

// curlUsers exist on a machine as long as something needs curl that installs no packages: the agent of a kube_vip
// endpoint, liveness probes, and facts for node_exporter.
var curlUsers = []string{
	"/etc/kube-endpoint-kube-vip", "/etc/systemd/system/kube-liveness.timer", "/etc/systemd/system/etcd-liveness.timer",
	"/etc/systemd/system/kube-facts.timer", "/etc/systemd/system/etcd-facts.timer",
	"/etc/systemd/system/kube-endpoint-facts.timer",
}

// Managers are the package managers that install.sh knows, in the order of preference.
func Managers() []string { return []string{"apt-get", "dnf", "yum", "zypper"} }

// HasManager reports whether a machine has a package manager that install.sh knows.
func HasManager(f host.Facts) bool {
	return slices.ContainsFunc(Managers(), func(name string) bool { return Program(f, name) != "" })
}

// programDirs is root's PATH as package host sets it.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Program returns the path of a program on a machine. It is "" if there is none, or if what the
// machine says is not a path of root's PATH.
func Program(f host.Facts, name string) string {
	at := f.Commands[name]
	if path.Base(at) == name && slices.Contains(programDirs, path.Dir(at)) && path.Clean(at) == at {
		return at
	}
	return ""
}

// Extend adds to a query what Missing needs to know.
func (s Set) Extend(q host.Query) host.Query {
	q.Files = append(slices.Clone(q.Files), s.InstallingPath())
	q.Commands = append(slices.Clone(q.Commands), Managers()...)
	for _, p := range s.Packages {
		q.Commands = append(q.Commands, p.Programs...)
		if p.Instead != "" {
			q.Commands = append(q.Commands, p.Instead)
		}
	}
	return q
}

// InstallingPath exists while packages are installed, and after an interrupted installation.
func (s Set) InstallingPath() string { return s.StateDir + "/installing" }

// Missing returns the names of the packages that the machine lacks, or may have only in part because
// an installation was interrupted. f are the facts of an extended query.
func (s Set) Missing(f host.Facts) []string {
	_, interrupted := f.Files[s.InstallingPath()]
	var names []string
	for _, p := range s.Packages {
		if p.Instead != "" && Program(f, p.Instead) != "" {
			continue
		}
		if p.lacks(f) || interrupted {
			names = append(names, p.nameOn(f))
		}
	}
	return names
}

func (p Package) lacks(f host.Facts) bool {
	return slices.ContainsFunc(p.Programs, func(program string) bool { return Program(f, program) == "" })
}

func (p Package) nameOn(f host.Facts) string {
	if p.Debian != "" && Program(f, "apt-get") != "" {
		return p.Debian
	}
	return p.Name
}

func (p Package) names() []string {
	if p.Debian == "" {
		return []string{p.Name}
	}
	return []string{p.Name, p.Debian}
}

// Install returns the command that installs the packages that are Missing without starting their units, and records
// the packages that were installed with them. A unit of a package whose programs are there belongs to somebody else,
// unless an interrupted installation has recorded it.
func (s Set) Install(f host.Facts) host.Command {
	var units []string
	for _, p := range s.Packages {
		if p.Unit != "" && p.lacks(f) {
			units = append(units, p.Unit)
		}
	}
	return host.Command{
		Script: "# install packages\n" + host.FlushFunction() + transactionsScript + installScript,
		Vars: map[string]string{
			"packages_dir": s.StateDir, "packages": strings.Join(s.Missing(f), " "), "units": strings.Join(units, " "),
		},
	}
}

// WithRemoval returns a script with the shell functions remove_packages, which removes the packages
// that were installed for the endpoint and nothing else needs by now, and flush_packages, which writes
// to the disk what package managers do not. vars are the script's own.
func (s Set) WithRemoval(script host.Script, vars map[string]string) host.Command {
	all := map[string]string{"packages_dir": s.StateDir, "packages_kept": strings.Join(s.sharedWithOthers(), " ")}
	maps.Copy(all, vars)
	return host.Command{Script: transactionsScript + removeScript + script, Vars: all}
}

// sharedWithOthers returns the packages that another kind of endpoint, or one of curlUsers, needs too, as PATH:NAME.
// The path exists where that is.
func (s Set) sharedWithOthers() []string {
	var shared []string
	for _, other := range sets() {
		if other.ConfigDir == s.ConfigDir {
			continue
		}
		for _, p := range other.Packages {
			for _, name := range p.names() {
				shared = append(shared, other.ConfigDir+":"+name)
			}
		}
	}
	for _, user := range curlUsers {
		shared = append(shared, user+":curl")
	}
	return shared
}
