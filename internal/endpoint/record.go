package endpoint

import (
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// recordPath says on each host whose endpoint it belongs to: the claim that is
// made before anything else is written, and asked for by everybody who changes
// something there. The rest of it is for an import: the rendered files have the
// defaults among them, and nothing of packages or drains.
const recordPath = configDir + "/endpoint.json"

// record is Spec but for what the rendered files say. Earlier versions wrote none,
// or one without cluster and address.
type record struct {
	ClusterID       string            `json:"cluster_id"`
	ClusterName     string            `json:"cluster_name"`
	Address         string            `json:"address"`
	Hosts           map[string]string `json:"hosts"`
	Interface       string            `json:"interface"`         // "": the one that holds the host's address
	VirtualRouterID int               `json:"virtual_router_id"` // 0: derived from the address
	InstallPackages bool              `json:"install_packages"`
	DrainTimeout    time.Duration     `json:"drain_timeout"`
}

// recordText is the record of an endpoint. Scripts read the lines of its first three
// fields, see owner.sh.
func recordText(s Spec) string {
	text, _ := json.MarshalIndent(record{ // of strings, numbers and a map of strings: always encodes
		ClusterID: s.ClusterID, ClusterName: s.ClusterName, Address: s.Address,
		Hosts: s.addresses(), Interface: s.Interface, VirtualRouterID: s.VirtualRouterID,
		InstallPackages: s.InstallPackages, DrainTimeout: s.DrainTimeout,
	}, "", "  ")
	return string(text) + "\n"
}

// readRecord is nil where there is none that says what a record can say.
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
	for name, address := range r.Hosts {
		_, err := netip.ParseAddr(address)
		checks = append(checks, validateName("host name", name), err)
	}
	if r.Interface != "" {
		checks = append(checks, validateInterface(r.Interface))
	}
	if r.VirtualRouterID != 0 {
		checks = append(checks, validateVirtualRouterID(r.VirtualRouterID))
	}
	if r.DrainTimeout < 0 {
		checks = append(checks, errors.New("the drain timeout is negative"))
	}
	return errors.Join(checks...)
}
