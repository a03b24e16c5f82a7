// Package kubelet describes the program that the kubelet of a replica's machine runs: that of the replica's version,
// which the provider installs. The unit and the configuration of the kubelet are kubeadm's.
package kubelet

import (
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// The unit of the kubelet, and the file that makes it run another program.
const (
	Unit   = node.Unit
	DropIn = node.DropIn
)

// Artifact returns the program of a version.
func Artifact(version string) host.Artifact { return node.Artifact(version) }

// File renders DropIn for a version.
func File(version string) host.File { return node.ProgramFile(version) }

//go:embed kubelet.sh
var report host.Script

// Report returns a script whose output Read parses.
func Report() host.Script { return report.WithoutComments() + IsCordoned() }

//go:embed change.sh
var change host.Script

// removedIn is the first minor whose kubelet does not have the flag that kubeadm has passed to every kubelet:
// https://github.com/kubernetes/kubernetes/pull/133779.
const removedIn = 35

// functions returns the functions of change.sh for a version.
func functions(version string) host.Script {
	removed := ""
	if minor, err := release.Minor(version); err == nil && minor >= removedIn {
		removed = "pod-infra-container-image"
	}
	return "kubelet_removed=" + host.Words(removed) + "\n" + change.WithoutComments()
}

// Try returns a script that fails if the program of a version does not take the arguments of the kubelet that runs. It
// changes nothing.
func Try(version string) host.Script {
	return functions(version) + "kubelet_tries " + host.Words(Artifact(version).Path()) + "\n"
}

// Start returns a script that starts the kubelet of a version, once DropIn is written.
func Start(version string) host.Script {
	return host.FlushFunction() + functions(version) + "kubelet_drops\n" + Restart()
}

// Restart returns a script that starts the kubelet with what its unit says now. Containers keep running.
func Restart() host.Script { return "systemctl restart " + Unit + "\n" }

// Former is what DropIn was before a change that has not ended.
const Former = DropIn + ".before"

// Keep returns a script that keeps DropIn before a change, in a directory that exists. What was kept before, by a
// change that was cut off, stays.
func Keep() host.Script { return staticpod.Functions() + staticpod.KeepKubelet }

// Back returns a script that restores what was kept, and starts the kubelet with it.
func Back() host.Script { return staticpod.Functions() + staticpod.KubeletBack }

// Stays returns a script that ends a change: the kubelet keeps its program.
func Stays() host.Script { return staticpod.Functions() + staticpod.KubeletStays }

// CordonMark is a file of a machine whose node accepts no Pods because the provider changes its kubelet. It contains
// the name of the node.
const CordonMark = "/etc/kubernetes/node.cordoned"

// Cordoned returns a script that writes CordonMark for a node.
func Cordoned(node string) host.Script {
	return "printf %s " + host.Words(node) + " >" + CordonMark + "\n" + host.Flush(CordonMark, path.Dir(CordonMark))
}

// IsCordoned returns a script that prints a line, which Read parses, if there is a CordonMark.
func IsCordoned() host.Script {
	return "if [ -e " + CordonMark + " ]; then printf 'kubelet\\tnode\\tcordoned\\t%s\\n' \"$(head -c 300 " + CordonMark +
		" | base64 -w 0)\"; fi\n"
}

// Uncordoned returns a script that removes CordonMark.
func Uncordoned() host.Script { return "rm -f " + CordonMark + "\n" + host.Flush(path.Dir(CordonMark)) }

// Drift describes how the program of the kubelet differs from that of a version. There is none if the machine was not
// asked.
func Drift(s State, version string) []string {
	switch want := Artifact(version).Path(); {
	case !s.Reported || s.Program == "":
		return nil // a kubelet that does not run is what the components report
	case s.Version != "" && s.Version != version:
		return []string{fmt.Sprintf("kubelet: runs version %s, wanted %s", s.Version, version)}
	case s.Program != want:
		return []string{fmt.Sprintf("kubelet: runs %s, wanted %s", s.Program, want)}
	}
	return nil
}

// Problems lists why the kubelet cannot be given another program, with the remedies. address is that of the machine,
// and port that of its API server.
//
// A kubelet must not be newer than an API server that it uses, so while the others are older it may use its own only:
// https://kubernetes.io/releases/version-skew-policy/#kubelet. kubeadm configures that since 1.33
// (ControlPlaneKubeletLocalMode).
func Problems(s State, address, port string) []string {
	var problems []string
	if s.Active != "active" {
		problems = append(problems, fmt.Sprintf("%s is %s: start it", Unit, s.Active))
	}
	if s.Arguments != node.Arguments {
		problems = append(problems, fmt.Sprintf("%s does not start the kubelet as 10-kubeadm.conf of Kubernetes' packages "+
			"does, with %s: install that file, or drop manage_kubelet", Unit, node.Arguments))
	}
	own := "https://" + net.JoinHostPort(address, port)
	for _, server := range s.Servers {
		if !local(server, address) {
			problems = append(problems, fmt.Sprintf("the kubelet uses the API servers at %s, and must not be newer than any "+
				"of them: let it use its own, server: %s in /etc/kubernetes/kubelet.conf, and restart it", server, own))
		}
	}
	return slices.Compact(problems)
}

// local reports whether the URL of an API server is on the machine with an address.
func local(server, address string) bool {
	at, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(at.Hostname())
	want, _ := netip.ParseAddr(address)
	return at.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.Unmap() == want.Unmap())
}
