package demo

import (
	"encoding/json"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// State is what the screen shows of Terraform's state.
type State struct {
	Cluster  string
	URL      string
	Holder   string
	Members  []Member
	Replicas []Replica
}

// Member is one etcd member.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Version string `json:"running_version"`
	Leader  bool   `json:"leader"`
	Learner bool   `json:"learner"`
	Healthy bool   `json:"healthy"`
	DBSize  int64  `json:"db_size_bytes"`
}

// Replica is one control-plane replica.
type Replica struct {
	Name       string      `json:"name"`
	Registered bool        `json:"registered"`
	Components []Component `json:"components"`
}

// Component is one program of a replica.
type Component struct {
	Name    string `json:"name"`
	Health  string `json:"health"`
	Version string `json:"version"`
	Expiry  string `json:"certificate_expires_at"`
}

// stateOf picks what the screen shows from the state's resources.
func stateOf(resources []workspace.Resource) (State, error) {
	var state State
	for _, r := range resources {
		if err := state.add(r.Type, r.Values); err != nil {
			return State{}, fmt.Errorf("read state of %s: %w", r.Address, err)
		}
	}
	return state, nil
}

func (s *State) add(kind string, values json.RawMessage) error {
	switch kind {
	case "kube_pki_bundle":
		var bundle struct {
			Cluster string `json:"cluster_name"`
		}
		err := json.Unmarshal(values, &bundle)
		s.Cluster = bundle.Cluster
		return err
	case "kube_control_plane_endpoint":
		var endpoint struct {
			URL    string `json:"url"`
			Holder string `json:"holder"`
		}
		err := json.Unmarshal(values, &endpoint)
		s.URL, s.Holder = endpoint.URL, endpoint.Holder
		return err
	case "kube_etcd_member":
		var member Member
		err := json.Unmarshal(values, &member)
		s.Members = append(s.Members, member)
		return err
	case "kube_control_plane_replica":
		var replica Replica
		err := json.Unmarshal(values, &replica)
		s.Replicas = append(s.Replicas, replica)
		return err
	}
	return nil
}
