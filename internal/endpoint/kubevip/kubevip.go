// Package kubevip is the endpoint of a control plane at a virtual IP that one of the replicas' machines has, in
// a network of one layer-2 segment and without balancers. The machines elect it by a Lease of the Kubernetes
// API, with kube-vip, and clients reach the API server of the machine that holds the Lease.
//
// The registrar owns what is on a replica's machine: an agent that runs kube-vip while the replica is in rotation
// and its API server is ready, and that removes the address when kube-vip does not. Package controlplane
// creates the Lease, the role that permits to read and update it alone, and a kubeconfig for it on each machine.
package kubevip

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// ARP is the mode in which the holder answers for the address on its network: ARP requests, or those of neighbor
// discovery for IPv6.
const ARP = "arp"

// Defaults of settings that are not set. Holders renew the Lease within three fifths of its duration, and others
// try to get it every fifth: kube-vip's recommendation for 5 seconds.
const (
	DefaultProgram       = "/usr/local/bin/kube-vip"
	DefaultLeaseDuration = 5 * time.Second
)

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID     string
	Address       string            // IP address
	Port          int               // of the endpoint, and of every API server; 0 means 6443
	Targets       map[string]string // name → IP address of the same family: the machines of the replicas
	Mode          string            // "" means ARP
	Interface     string            // "" means the one with the machine's own address
	Program       string            // path of kube-vip on the machines; "" means DefaultProgram
	SHA256        string            // of the program; "" is not checked
	LeaseDuration time.Duration     // 0 means DefaultLeaseDuration
	DrainTimeout  time.Duration
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	return endpoint.Registration{
		Kind: endpoint.KubeVIP, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port: port, TargetPort: port, DrainTimeout: s.DrainTimeout,
		KubeVIP: &endpoint.Election{
			Mode: cmp.Or(s.Mode, ARP), Interface: s.Interface, Program: cmp.Or(s.Program, DefaultProgram),
			SHA256: s.SHA256, LeaseDuration: cmp.Or(s.LeaseDuration, DefaultLeaseDuration),
		},
	}
}

// LeaseName returns the name of the Lease of an endpoint. It is also the name of the role that permits to
// update it, and of the group in the certificates of its holders. Names have no colons, so an IPv6 address has
// all its digits, and dashes.
func LeaseName(address string) string {
	if at, err := netip.ParseAddr(address); err == nil && at.Is6() {
		address = strings.ReplaceAll(at.StringExpanded(), ":", "-")
	}
	return "kube-vip-" + address
}

// LeaseOf returns the name of the Lease that a replica with this registration needs. It is "" if none of its
// endpoints is of this kind.
func LeaseOf(r endpoint.Registration) string {
	for _, each := range r.All() {
		if each.Kind == endpoint.KubeVIP {
			return LeaseName(each.Address)
		}
	}
	return ""
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints = agent.Endpoints[Spec, report]

// New returns Endpoints.
func New(observer *targets.Observer) *Endpoints { return agent.New[Spec](observer, kind(), kind()) }
