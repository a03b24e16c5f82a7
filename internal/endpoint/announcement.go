package endpoint

import (
	"slices"
	"time"
)

// Announcement is how the machines of the replicas announce the endpoint's address by BGP.
type Announcement struct {
	ASN   uint32 `json:"asn"` // of the replicas' machines
	Peers []Peer `json:"peers"`
	// HoldTime is after how long without a message a session is down.
	HoldTime time.Duration `json:"hold_time"`
	// BFDInterval is the time between two BFD packets. After three that are missing, a session is down.
	BFDInterval time.Duration `json:"bfd_interval"`
	// Propagation is how long the network may take to follow an announcement or a withdrawal.
	Propagation time.Duration `json:"propagation"`
	// KeepPackages says that nothing is installed on the machines.
	KeepPackages bool `json:"keep_packages,omitempty"`
}

// Peer is a router that the replicas' machines announce the address to.
type Peer struct {
	Address string `json:"address"`
	ASN     uint32 `json:"asn"`
	BFD     bool   `json:"bfd,omitempty"`
	// Multihop is the number of hops to a router that is not on the machines' network. 0 is for a
	// router that is.
	Multihop int `json:"multihop,omitempty"`
	// Password is the name of the password of the session, not the password. "" is none.
	Password string `json:"password,omitempty"`
	// Targets are the names of the targets that have a session with it, sorted: those in its zone.
	// Empty means all.
	Targets []string `json:"targets,omitempty"`
}

// PeersOf returns the peers of one target.
func (a Announcement) PeersOf(target string) []Peer {
	return slices.DeleteFunc(slices.Clone(a.Peers), func(p Peer) bool {
		return len(p.Targets) > 0 && !slices.Contains(p.Targets, target)
	})
}
