package component

import (
	"maps"
	"net"
	"reflect"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// standardFlags returns the flags of a component that do not follow from a setting of s: those that it has although
// nobody has configured them. A change of the rest is a decision of the user.
func (s Replica) standardFlags(name string) map[string]string {
	plain := s
	plain.ExtraArgs, plain.MetricsAddress, plain.Authentication = nil, "", Authentication{}
	var flags map[string]string
	switch name {
	case release.APIServer:
		flags = APIServer(plain).Flags
	case release.ControllerManager:
		flags = controllerManager(plain).Flags
	case release.Scheduler:
		flags = scheduler(plain).Flags
	}
	configured := []string{
		"encryption-provider-config", KubeletCAFlag, EgressSelectorFlag, "advertise-address", "secure-port", "etcd-servers",
		"service-cluster-ip-range", "cluster-cidr", "allocate-node-cidrs", "cluster-name",
	}
	for _, flag := range append(configured, s.Audit.configured()...) {
		delete(flags, flag)
	}
	return flags
}

// configured returns the flags that follow from the settings. A policy alone says nothing about the log.
func (a Audit) configured() []string {
	var flags []string
	if a.Policy != "" {
		flags = append(flags, "audit-policy-file")
	}
	if a.Policy = ""; !reflect.DeepEqual(a, Audit{}) {
		flags = slices.AppendSeq(flags, maps.Keys(Replica{Audit: a}.AuditFlags()))
	}
	return flags
}

// loopbackURLs are the URLs by which kubeadm's API server reaches the etcd member on its machine.
var loopbackURLs = []string{"https://127.0.0.1:2379", "https://[::1]:2379"}

// IsLoopbackURL reports whether a URL is that by which kubeadm's API server reaches the etcd member on its machine.
func IsLoopbackURL(url string) bool { return slices.Contains(loopbackURLs, url) }

// MemberURL returns the URL of the etcd member on a machine.
func MemberURL(address string) string { return "https://" + net.JoinHostPort(address, "2379") }
