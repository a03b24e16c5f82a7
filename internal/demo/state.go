package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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
	Name    string `json:"-"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Leader  bool   `json:"leader"`
	Learner bool   `json:"learner"`
	Healthy bool   `json:"healthy"`
	DBSize  int64  `json:"db_size_bytes"`
}

// Replica is one control-plane replica.
type Replica struct {
	Name       string               `json:"-"`
	Registered bool                 `json:"registered"`
	Components map[string]Component `json:"components"`
}

// Component is one program of a replica.
type Component struct {
	Health  string `json:"health"`
	Version string `json:"version"`
	Expiry  string `json:"certificate_expires_at"`
}

// healthFile puts the data source beside the example that tells of health.
const healthFile = `data "kube_control_plane" "this" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
}
`

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
			URL string `json:"url"`
		}
		err := json.Unmarshal(values, &endpoint)
		s.URL = endpoint.URL
		return err
	case "kube_control_plane":
		return s.addHealth(values)
	}
	return nil
}

// addHealth takes what the data source tells, by name.
func (s *State) addHealth(values json.RawMessage) error {
	var health struct {
		VirtualIP struct {
			Holder string `json:"holder"`
		} `json:"virtual_ip"`
		Etcd struct {
			Members map[string]Member `json:"members"`
		} `json:"etcd_cluster"`
		Replicas map[string]Replica `json:"replicas"`
	}
	if err := json.Unmarshal(values, &health); err != nil {
		return err
	}
	s.Holder = health.VirtualIP.Holder
	for _, name := range slices.Sorted(maps.Keys(health.Etcd.Members)) {
		member := health.Etcd.Members[name]
		member.Name = name
		s.Members = append(s.Members, member)
	}
	for _, name := range slices.Sorted(maps.Keys(health.Replicas)) {
		replica := health.Replicas[name]
		replica.Name = name
		s.Replicas = append(s.Replicas, replica)
	}
	return nil
}
