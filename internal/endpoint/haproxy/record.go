package haproxy

import (
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// recordPath is the file on each host that names the endpoint it belongs to. It is the claim that
// is written before any other file and checked before every change. Its other fields are for an
// import: the rendered files do not show which values are defaults, and contain nothing about
// packages or drains.
const recordPath = configDir + "/endpoint.json"

// record is Spec without what the rendered files contain. Earlier versions wrote none, or one
// without cluster and address.
type record struct {
	ClusterID       string            `json:"cluster_id"`
	ClusterName     string            `json:"cluster_name"`
	Address         string            `json:"address"`
	Hosts           map[string]string `json:"hosts"`
	Interface       string            `json:"interface"`         // "": the one that has the host's address
	VirtualRouterID int               `json:"virtual_router_id"` // 0: derived from the address
	InstallPackages bool              `json:"install_packages"`
	DrainTimeout    time.Duration     `json:"drain_timeout"`
	Address6        string            `json:"address6,omitempty"`
	Further         []string          `json:"additional_addresses,omitempty"`
	VRRP            string            `json:"vrrp,omitempty"` // "": unicast
	// Leaving are addresses of machines that are no hosts any more, could not be reached, and may still have the endpoint.
	Leaving []string `json:"leaving,omitempty"`
}

// recordText returns the record of an endpoint as text. Scripts read the lines of its first three
// fields (owner.sh).
func recordText(s Spec, leaving ...string) string {
	text, _ := json.MarshalIndent(record{ // strings, numbers and a map of strings can always be encoded
		ClusterID: s.ClusterID, ClusterName: s.ClusterName, Address: s.Address,
		Hosts: s.addresses(), Interface: s.Interface, VirtualRouterID: s.VirtualRouterID,
		InstallPackages: s.InstallPackages, DrainTimeout: s.DrainTimeout, Address6: s.Address6,
		Further: s.Further,
		VRRP:    s.VRRP, Leaving: leaving,
	}, "", "  ")
	return string(text) + "\n"
}

// readRecord parses a record. It returns nil if the text is not a valid one.
func readRecord(text string) *record {
	var r record
	if json.Unmarshal([]byte(text), &r) != nil || r.validate() != nil {
		return nil
	}
	return &r
}

func (r record) validate() error {
	var checks []error
	if r.ClusterID != "" || r.ClusterName != "" {
		checks = append(checks, validateClusterID(r.ClusterID), pki.ValidateClusterName(r.ClusterName))
	}
	if r.Address != "" {
		checks = append(checks, ValidateAddress(r.Address))
	}
	if r.Address6 != "" {
		checks = append(checks, ValidateAddress6(r.Address, r.Address6))
	}
	if len(r.Further) > 0 {
		checks = append(checks, ValidateFurther(r.Address, r.Address6, r.Further, r.Hosts))
	}
	for name, address := range r.Hosts {
		_, err := netip.ParseAddr(address)
		checks = append(checks, validateName("host name", name), err)
	}
	for _, address := range r.Leaving {
		checks = append(checks, host.CheckAddress(address))
	}
	if r.Interface != "" {
		checks = append(checks, ValidateInterface(r.Interface))
	}
	if r.VirtualRouterID != 0 {
		checks = append(checks, validateVirtualRouterID(r.VirtualRouterID))
	}
	if r.VRRP != "" && r.VRRP != Unicast && r.VRRP != Multicast {
		checks = append(checks, errors.New("the way of advertisements is unknown"))
	}
	if r.DrainTimeout < 0 {
		checks = append(checks, errors.New("the drain timeout is negative"))
	}
	return errors.Join(checks...)
}
