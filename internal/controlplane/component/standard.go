package component

import (
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"

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
	if !reflect.DeepEqual(s.Audit, Audit{}) {
		configured = slices.AppendSeq(configured, maps.Keys(s.AuditFlags()))
	}
	for _, flag := range configured {
		delete(flags, flag)
	}
	return flags
}

// MemberURL returns the URL of the etcd member on a machine.
func MemberURL(address string) string { return "https://" + net.JoinHostPort(address, "2379") }

// Admits reports whether a list of plugins has all of another list.
func Admits(list, others string) bool {
	have := strings.Split(list, ",")
	return !slices.ContainsFunc(strings.Split(others, ","), func(plugin string) bool {
		return !slices.Contains(have, plugin)
	})
}
