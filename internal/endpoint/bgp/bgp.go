// Package bgp is the endpoint of a control plane at an IP address that the machines of the replicas
// announce to their routers by BGP. Every machine has the address. It announces it while its own API
// server is ready, and not after the replica was drained.
//
// The registrar owns what is on a replica's machine: bird with a configuration that can announce this
// one prefix and learns none, a health check, the address on the loopback interface, and a mark
// without which nothing is announced. The endpoint itself has nothing on any machine.
package bgp

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// Defaults of settings that are not set. A session that is silent for DefaultHoldTime is down. With
// BFD, it is down after three intervals.
const (
	DefaultHoldTime    = 3 * time.Second
	DefaultBFDInterval = 300 * time.Millisecond
	DefaultPropagation = time.Second
)

// bfdMultiplier is how many BFD packets may be missing.
const bfdMultiplier = 3

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID    string
	Address      string            // IP address
	Port         int               // of the endpoint, and of every API server; 0 means 6443
	Targets      map[string]string // name → IP address: the machines of the replicas
	ASN          uint32            // of the machines
	Peers        []endpoint.Peer   // in any order
	HoldTime     time.Duration     // 0 means DefaultHoldTime
	BFDInterval  time.Duration     // 0 means DefaultBFDInterval
	Propagation  time.Duration     // 0 means DefaultPropagation
	KeepPackages bool              // the machines' package manager must not be used
	DrainTimeout time.Duration
}

// Registration returns what the replicas need.
func (s Spec) Registration() endpoint.Registration {
	port := cmp.Or(s.Port, endpoint.DefaultPort)
	return endpoint.Registration{
		Kind: endpoint.BGP, ClusterID: s.ClusterID, Address: s.Address, Hosts: s.Targets,
		Port: port, TargetPort: port, DrainTimeout: s.DrainTimeout,
		BGP: Complete(endpoint.Announcement{
			ASN: s.ASN, Peers: s.Peers, HoldTime: s.HoldTime, BFDInterval: s.BFDInterval, Propagation: s.Propagation,
			KeepPackages: s.KeepPackages,
		}),
	}
}

// AnnouncedAt returns the addresses that the machine of a replica with this registration announces, each with the
// socket of the bird that does.
func AnnouncedAt(r endpoint.Registration) map[string]string {
	all := map[string]string{}
	for _, each := range r.All() {
		if each.Kind == endpoint.BGP {
			all[each.Address] = "bird:" + socketPath
		}
	}
	return all
}

// Complete returns an announcement with the defaults of settings that are 0, and its peers by address.
func Complete(a endpoint.Announcement) *endpoint.Announcement {
	return &endpoint.Announcement{
		ASN:          a.ASN,
		Peers:        sortedPeers(a.Peers),
		HoldTime:     cmp.Or(a.HoldTime, DefaultHoldTime),
		BFDInterval:  cmp.Or(a.BFDInterval, DefaultBFDInterval),
		Propagation:  cmp.Or(a.Propagation, DefaultPropagation),
		KeepPackages: a.KeepPackages,
	}
}

// sortedPeers returns the peers by address: their order means nothing.
func sortedPeers(peers []endpoint.Peer) []endpoint.Peer {
	sorted := slices.SortedFunc(slices.Values(peers), func(a, b endpoint.Peer) int {
		return strings.Compare(a.Address, b.Address)
	})
	for i, p := range sorted {
		sorted[i].Targets = slices.Sorted(slices.Values(p.Targets))
	}
	return sorted
}

// Endpoints creates registrars and does the endpoints' own operations.
type Endpoints = agent.Endpoints[Spec, report]

// New returns Endpoints. passwords has the passwords of sessions, by the name that peers give. A registration that
// a machine has recorded does not choose which of them is written there.
func New(observer *targets.Observer, passwords map[string]string) *Endpoints {
	return agent.New[Spec](observer, kind(passwords), kind(nil))
}
