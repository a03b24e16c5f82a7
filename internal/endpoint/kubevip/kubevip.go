// Package kubevip is the endpoint of a control plane at an address that kube-vip gives to the replicas' machines,
// without balancers. It has two modes.
//
// With ARP, one machine has it as a virtual IP, in a network of one layer-2 segment. The machines elect it by a Lease
// of the Kubernetes API, and clients reach the API server of the machine that holds the Lease. Package controlplane
// creates the Lease, the role that permits to read and update it alone, and a kubeconfig for it on each machine.
//
// With BGP, every machine announces the address to its routers. There is no election: kube-vip gets no Lease and no
// rights.
//
// The registrar owns what is on a replica's machine: an agent that runs kube-vip while the replica is in rotation
// and its API server is ready, and that removes the address when kube-vip does not.
package kubevip

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// The modes. With ARP, the holder answers for the address on its network: ARP requests, or those of neighbor
// discovery for IPv6. With BGP, every machine announces it.
const (
	ARP = "arp"
	BGP = "bgp"
)

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
	LeaseName     string            // in the namespace kube-system; "" is named after the address
	LeaseDuration time.Duration     // 0 means DefaultLeaseDuration
	DrainTimeout  time.Duration
	// Announcement is for the mode BGP. Its zero values are the defaults of package bgp.
	Announcement endpoint.Announcement
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	r := endpoint.Registration{
		Kind: endpoint.KubeVIP, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port: port, TargetPort: port, DrainTimeout: s.DrainTimeout,
		KubeVIP: &endpoint.Election{
			Mode: cmp.Or(s.Mode, ARP), Interface: s.Interface, Program: cmp.Or(s.Program, DefaultProgram),
			SHA256: s.SHA256, LeaseName: s.LeaseName, LeaseDuration: cmp.Or(s.LeaseDuration, DefaultLeaseDuration),
		},
	}
	a := s.Announcement
	if s.Mode == BGP || a.ASN != 0 || len(a.Peers) > 0 || a.HoldTime+a.BFDInterval+a.Propagation != 0 {
		r.BGP = bgp.Complete(a) // ValidateRegistration refuses it in the other mode
	}
	return r
}

// announces reports whether the machines announce the address.
func announces(r endpoint.Registration) bool { return r.KubeVIP.Mode == BGP }

// HoldersOf returns the name of the role that permits to update the Lease of an endpoint, and of the group in the
// certificates of its holders. It is also the name of the Lease, unless the endpoint names another one. Names have no
// colons, so an IPv6 address has all its digits, and dashes.
func HoldersOf(address string) string {
	if at, err := netip.ParseAddr(address); err == nil && at.Is6() {
		address = strings.ReplaceAll(at.StringExpanded(), ":", "-")
	}
	return "kube-vip-" + address
}

// LeaseOf returns the name of the Lease that a replica with this registration needs, and of its holders as HoldersOf
// does. Both are "" if none of its endpoints is of this kind and elects a holder.
func LeaseOf(r endpoint.Registration) (name, holders string) {
	for _, each := range r.All() {
		if each.Kind == endpoint.KubeVIP && (each.KubeVIP == nil || !announces(each)) {
			return leaseName(each), HoldersOf(each.Address)
		}
	}
	return "", ""
}

// leaseName returns the name of the Lease of an endpoint.
func leaseName(r endpoint.Registration) string {
	if r.KubeVIP != nil && r.KubeVIP.LeaseName != "" {
		return r.KubeVIP.LeaseName
	}
	return HoldersOf(r.Address)
}

// CheckChange returns an error if the machines of an endpoint that both registrations have would not agree on the
// holder of its address while one after the other follows.
func CheckChange(before, after endpoint.Registration) error {
	for _, was := range before.All() {
		for _, is := range after.All() {
			if is.Kind != endpoint.KubeVIP || is.ID() != was.ID() || is.KubeVIP == nil || was.KubeVIP == nil {
				continue
			}
			switch from, to := leaseName(was), leaseName(is); {
			case was.KubeVIP.Mode != is.KubeVIP.Mode:
				return fmt.Errorf("kube_vip.mode of the endpoint %s is %q for its replicas, and would be %q: while one after "+
					"the other follows, machines announce the address that another one holds", is.Address, was.KubeVIP.Mode,
					is.KubeVIP.Mode)
			case from != to && !announces(is):
				return fmt.Errorf("kube_vip.lease_name of the endpoint %s is %q for its replicas, and would be %q: while one "+
					"after the other follows, each of the two Leases has a holder, and two machines have the address", is.Address,
					from, to)
			}
		}
	}
	return nil
}

// HeldAt returns the addresses of which a replica with this registration has one or none at a time, as their holder.
func HeldAt(r endpoint.Registration) []string {
	var all []string
	for _, each := range r.All() {
		if each.Kind == endpoint.KubeVIP && each.KubeVIP != nil && !announces(each) {
			all = append(all, each.Address)
		}
	}
	return all
}

// AnnouncedAt returns the addresses that the machine of a replica with this registration announces, each with the URL
// of the metrics in which kube-vip says which sessions it has.
func AnnouncedAt(r endpoint.Registration) map[string]string {
	all := map[string]string{}
	for _, each := range r.All() {
		if each.Kind == endpoint.KubeVIP && each.KubeVIP != nil && announces(each) {
			all[each.Address] = "http://127.0.0.1:" + strconv.Itoa(metricsPort) + "/metrics"
		}
	}
	return all
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints = agent.Endpoints[Spec, report]

// New returns Endpoints. passwords has the passwords of BGP sessions, by the name that peers give.
func New(observer *targets.Observer, passwords map[string]string) *Endpoints {
	return agent.New[Spec](observer, kind(passwords), kind(nil))
}
