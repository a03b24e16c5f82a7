package endpoint

import "time"

// Election is how the machines of the replicas have the endpoint's address by kube-vip: in the mode "arp", they elect
// the one that has it; in the mode "bgp", each announces it as the registration's BGP says.
type Election struct {
	Mode      string `json:"mode"`                // how the network learns who has the address: "arp" or "bgp"
	Interface string `json:"interface,omitempty"` // "" is the one with the machine's own address
	// Program is the path of kube-vip on the machines. A registration that a machine has recorded writes no
	// unit, so what it says here is never executed.
	Program string `json:"program"`
	SHA256  string `json:"sha256,omitempty"` // of the program; "" is not checked
	// LeaseName is the Lease by which the machines elect the holder; "" is the one that is named after the address.
	LeaseName string `json:"lease_name,omitempty"`
	// LeaseDuration is how long the Lease of a holder that does not renew it is respected.
	LeaseDuration time.Duration `json:"lease_duration"`
}
