package controlplane

import (
	"encoding/json"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// creatingPath says whose Create has begun to write onto a machine. It is the first
// file that a Create writes, and goes once the record is there, which is the last:
// so a machine never holds a part of a replica that nothing says whose it is.
const creatingPath = component.KubernetesDir + "/replica.creating.json"

// creating is the identity alone; which certificates were issued is not yet known.
type creating struct {
	ClusterID   string `json:"cluster_id"`
	ClusterName string `json:"cluster_name"`
	Name        string `json:"name"`
}

// creatingFile is there from the first file of a Create on.
func creatingFile(s component.Replica) host.File {
	text, _ := json.MarshalIndent(creating{s.Bundle.ClusterID, s.Bundle.ClusterName, s.Name}, "", "  ") // strings always encode
	return host.File{Path: creatingPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root"}
}

// identity is the record of the replica that the machine holds or, where there is
// none yet, of the one whose Create was cut off there; zero for neither.
func (f observed) identity() (rec record, begun bool) {
	if f.record.ClusterID != "" {
		return f.record, false
	}
	return f.creating, f.creating.ClusterID != ""
}

// of reports whether r is a record of s.
func (r record) of(s component.Replica) bool {
	return r.ClusterID == s.Bundle.ClusterID && r.Name == s.Name
}
