package endpoint

import (
	"encoding/json"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recordPath says on each host what was configured, for an import: the rendered
// files have the defaults among them, and nothing of packages or drains. It is
// read by nothing else, so that hosts which an earlier version set up, without
// one, are as they shall be.
const recordPath = configDir + "/endpoint.json"

// record is Spec but for what the rendered files say.
type record struct {
	Hosts           map[string]string `json:"hosts"`
	Interface       string            `json:"interface"`         // "": the one that holds the host's address
	VirtualRouterID int               `json:"virtual_router_id"` // 0: derived from the address
	InstallPackages bool              `json:"install_packages"`
	DrainTimeout    time.Duration     `json:"drain_timeout"`
}

func recordFile(s Spec) host.File {
	text, _ := json.MarshalIndent(record{ // of strings, numbers and a map of strings: always encodes
		Hosts: s.addresses(), Interface: s.Interface, VirtualRouterID: s.VirtualRouterID,
		InstallPackages: s.InstallPackages, DrainTimeout: s.DrainTimeout,
	}, "", "  ")
	return host.File{Path: recordPath, Content: append(text, '\n'), Mode: 0o644}
}

// readRecord is nil where there is none that can be read.
func readRecord(text string) *record {
	var r record
	if json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return &r
}
