package controlplane

import (
	"encoding/json"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// creatingPath identifies the replica whose Create has begun on a machine. It is the first file
// that a Create writes, and is removed once the record, the last file, exists. A machine
// therefore never has parts of a replica without an owner.
const creatingPath = component.KubernetesDir + "/replica.creating.json"

// creating contains only the identity; the issued certificates are not known yet.
type creating struct {
	ClusterID   string `json:"cluster_id"`
	ClusterName string `json:"cluster_name"`
	Name        string `json:"name"`
}

// creatingFile exists from the first step of a Create.
func creatingFile(s component.Replica) host.File {
	text, _ := json.MarshalIndent(creating{s.Bundle.ClusterID, s.Bundle.ClusterName, s.Name}, "", "  ") // strings always encode
	return host.File{Path: creatingPath, Content: append(text, '\n'), Mode: component.SecretMode, Owner: "root", Group: "root"}
}

// identity returns the record of the replica on the machine or, if there is none yet, of the
// replica whose Create was interrupted there; zero if there is neither.
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
